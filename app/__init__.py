"""The web process: API, pages, records, supervision. This file stays empty so that app.serve can patch first."""
