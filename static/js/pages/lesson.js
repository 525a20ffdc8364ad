// The lesson is all in its HTML; the frame around it works as on every page.

import { startShell } from "../shell.js";

startShell();
document.addEventListener("zone", (event) => event.preventDefault()); // no time of day is shown
