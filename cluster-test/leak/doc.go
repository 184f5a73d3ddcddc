// Package leak searches the bytes that leave a zone for what must stay in it: its
// canaries, in every encoding that a careless line of code could give them. It
// must never be the reason that a leak goes unseen: what it cannot look for it
// refuses, and it counts what it has looked at.
package leak
