// Package upgrade tests that a federation of real processes is upgraded from the release before to this one, and back. It holds
// nothing but tests, and builds the release before from the history of the repository; with the
// build tag years, because that takes minutes.
package upgrade
