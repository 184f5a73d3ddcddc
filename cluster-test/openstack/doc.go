// Package openstack drives the placement and the reservation API of real zones with the
// stock client that OpenStack's users have: the command openstack with the commands of both,
// unchanged, logged in in every way that it knows. It has tests and nothing else,
// and they need the tag openstack:
//
//	make openstack
//
// The client must be installed: the packages python3-openstackclient,
// python3-osc-placement and python3-blazarclient of Debian. Without it root installs it;
// where that fails the tests fail, and say so. It must
// never look behind the client: what a test knows, a command has printed.
package openstack
