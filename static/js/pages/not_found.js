// Nothing is here but the frame: its link, theme and bars work as on every page.

import { startShell } from "../shell.js";

startShell();
