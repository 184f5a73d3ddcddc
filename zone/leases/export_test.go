package leases

// WasUpdated lets tests ask what an update asks when its room is decided.
var WasUpdated = wasUpdated
