package leases

// What tests ask of a lease that is decided, of its order, and of what was refused.
var (
	WasUpdated      = wasUpdated
	OrderOf         = orderOf
	RefusalOfSeries = refusalOfSeries
	DescribeAttempt = describeAttempt
	CheckedPlaces   = checkedPlaces
	IsWide          = isWide
)
