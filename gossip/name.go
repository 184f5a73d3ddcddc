package gossip

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net"
	"strconv"
	"strings"

	"berth/api"
)

const (
	namePrefix   = "n-"
	nameHashed   = 8                              // bytes of the hash in a name
	nameBytes    = len(namePrefix) + 2*nameHashed // of a synthetic name
	portOfAll    = 7946                           // synthetic; nobody listens on it
	hashOffset   = 4                              // bytes of addressPrefix
	addressBytes = net.IPv6len
)

// addressPrefix is 2001:db8::/32, the range that is set apart for documentation:
// no packet can ever be routed to it.
var addressPrefix = [hashOffset]byte{0x20, 0x01, 0x0d, 0xb8}

// SyntheticName returns the name under which a node takes part in a pool: "n-"
// and 16 hexadecimal digits of a SHA-256 over the pool's name and the parts,
// each preceded by its length. The same arguments give the same name, so a node
// keeps it over restarts; other pools see another name. The parts are commonly
// zone id and node id. A reader of the pool can find parts that it can guess by
// trying them, so one of them must be hard to guess where that matters.
func SyntheticName(pool string, parts ...string) string {
	h := sha256.New()
	for _, p := range append([]string{pool}, parts...) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		_, _ = h.Write(n[:])      // a hash never fails
		_, _ = h.Write([]byte(p)) // a hash never fails
	}
	return namePrefix + hex.EncodeToString(h.Sum(nil)[:nameHashed])
}

// checkName returns an invalid-input error unless s is shaped like a synthetic name.
func checkName(s string) error {
	digits, found := strings.CutPrefix(s, namePrefix)
	if found && len(s) == nameBytes && strings.Trim(digits, "0123456789abcdef") == "" {
		return nil
	}
	return api.Errorf(api.CodeInvalid, "a member is named %q and %d digits of 0-9 a-f", namePrefix, 2*nameHashed)
}

// ipOf returns the synthetic address that belongs to a synthetic name.
func ipOf(name string) net.IP {
	sum := sha256.Sum256([]byte(name))
	ip := make(net.IP, addressBytes)
	copy(ip, addressPrefix[:])
	copy(ip[hashOffset:], sum[:])
	return ip
}

// address is a member's synthetic net.Addr.
type address string

// Network returns "gossip".
func (a address) Network() string { return "gossip" }

// String returns the synthetic address and port of the named member.
func (a address) String() string {
	return net.JoinHostPort(ipOf(string(a)).String(), strconv.Itoa(portOfAll))
}
