// Package openstack drives the placement API of real zones with the stock client
// that OpenStack's users have: the command openstack with its placement commands,
// unchanged, logged in in every way that it knows. It has tests and nothing else,
// and they need the tag openstack:
//
//	make openstack
//
// The client must be installed: the packages python3-openstackclient and
// python3-osc-placement of Debian. Without it the tests fail, and say so. It must
// never look behind the client: what a test knows, a command has printed.
package openstack
