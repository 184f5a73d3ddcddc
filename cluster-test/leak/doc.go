// Package leak searches the bytes that leave a zone for canaries, the data that must stay
// in it, in every encoding that a careless line of code could give them. It must never
// hide a leak: it refuses canaries that it cannot search for, and counts the bytes that
// it has searched.
package leak
