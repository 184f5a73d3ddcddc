package api

import (
	"net/netip"
	"strconv"
	"strings"
)

// Limits of the addresses of a zone's gateways.
const (
	GatewaysMax     = 16  // gateways of one zone
	addressMaxBytes = 261 // one address: a DNS name, a colon and a port
)

// CheckGateways refuses a list of gateways that cannot be stored in a link: an empty or
// too long one, and addresses that are not host:port.
func CheckGateways(addresses []string) error {
	if len(addresses) == 0 || len(addresses) > GatewaysMax {
		return Errorf(CodeInvalid, "a zone needs 1 to %d gateways", GatewaysMax)
	}
	for _, a := range addresses {
		if !ValidAddress(a) {
			return Errorf(CodeInvalid, "a gateway address must be HOST:PORT, of at most %d bytes", addressMaxBytes)
		}
	}
	return nil
}

// ValidAddress reports whether s is a DNS name or an IP address with a port, and nothing
// else, so that it can be dialled, shown and put into a URL.
func ValidAddress(s string) bool {
	colon := strings.LastIndexByte(s, ':')
	if colon < 1 || len(s) > addressMaxBytes {
		return false
	}
	host, port := s[:colon], s[colon+1:]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return false
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		return ok && err == nil && ip.Is6() && ip.Zone() == ""
	}
	return !strings.ContainsFunc(host, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && r != '.' && r != '-' && r != '_'
	})
}
