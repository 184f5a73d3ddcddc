package webhook

import (
	"net/netip"
	"net/url"
	"strings"

	"berth/api"
)

// Networks are inner networks that webhooks may reach, because the operator of the zone has
// allowed it. All others that are not public are refused: a tenant must not use a zone to
// call what only the zone can reach.
type Networks []netip.Prefix

// special are ranges that netip does not name, and that are not public: shared by carriers,
// for protocols, for measurements, reserved, and those that hide an address of version 4.
var special = parsePrefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10",
)

func parsePrefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// ParseNetworks reads networks such as 10.1.0.0/16.
func ParseNetworks(texts []string) (Networks, error) {
	if len(texts) > api.WebhookNetworksMax {
		return nil, api.Errorf(api.CodeInvalid, "at most %d networks for webhooks are allowed", api.WebhookNetworksMax)
	}
	var out Networks
	for _, t := range texts {
		p, err := netip.ParsePrefix(t)
		if err != nil || p != p.Masked() {
			return nil, api.Errorf(api.CodeInvalid, "%.64q is not a network such as 10.1.0.0/16 or fd00::/8", t)
		}
		out = append(out, p)
	}
	return out, nil
}

// Allow reports whether webhooks may reach an address.
func (n Networks) Allow(a netip.Addr) bool {
	a = a.Unmap()
	for _, p := range n {
		if p.Contains(a.WithZone("")) {
			return true
		}
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Zone() != "" {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// CheckURL refuses an address of a webhook that can never be called: it must be https, or
// http on this machine where the operator allows that. What a name stands for is checked
// again whenever it is called.
func (n Networks) CheckURL(text string) error {
	if len(text) > api.WebhookURLMaxBytes {
		return api.Errorf(api.CodeInvalid, "url has %d bytes; at most %d are allowed", len(text), api.WebhookURLMaxBytes)
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Opaque != "" {
		return api.Errorf(api.CodeInvalid, "url must look like https://example.org/path, without a user and a fragment")
	}
	addr, err := netip.ParseAddr(u.Hostname())
	literal, here := err == nil, strings.EqualFold(u.Hostname(), "localhost")
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || !here && (!literal || !addr.Unmap().IsLoopback())):
		return api.Errorf(api.CodeInvalid, "url must begin with https://; http:// is for loopback addresses alone")
	case here && !n.Allow(netip.AddrFrom4([4]byte{127, 0, 0, 1})) && !n.Allow(netip.IPv6Loopback()), literal && !n.Allow(addr):
		return refuseAddress()
	}
	return nil
}

// refuseAddress is the refusal of an address that is not public.
func refuseAddress() error {
	return api.Errorf(api.CodeInvalid, "the address is not a public one; the operator of the zone may allow networks with webhook_networks")
}
