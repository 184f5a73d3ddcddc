package leases

// WasUpdated lets tests ask what an update asks when its room is decided.
var WasUpdated = wasUpdated

// RefusalOfSeries lets tests ask why a series failed.
var RefusalOfSeries = refusalOfSeries
