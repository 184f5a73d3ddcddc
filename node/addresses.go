package node

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/identity"
)

// Addresses are the listeners of a node, as host:port. Port 0 takes any free
// port at the first start and keeps it.
type Addresses struct {
	API     string `json:"api"`     // users: TLS and tokens
	Gateway string `json:"gateway"` // linked zones: mutual TLS; the only one they ever see
	Node    string `json:"node"`    // nodes of the zone: mutual TLS; Raft above all
	Agent   string `json:"agent"`   // agents of the zone: mutual TLS
	Admin   string `json:"admin"`   // metrics and health: plain HTTP, for the machine's own operator
}

// Ports of the listeners, unless the operator gives others.
const (
	portAPI     = 7600
	portGateway = 7601
	portNode    = 7602
	portAgent   = 7603
	portAdmin   = 7604
)

// hostDefault is the address of all listeners, unless the operator gives another.
const hostDefault = "127.0.0.1"

// DefaultAddresses are the default ports of a node on a host, which may be an IPv6 address
// with or without brackets.
func DefaultAddresses(host string) Addresses {
	at := func(port int) string { return joinPort(host, strconv.Itoa(port)) }
	return Addresses{at(portAPI), at(portGateway), at(portNode), at(portAgent), at(portAdmin)}
}

func joinPort(host, port string) string {
	return net.JoinHostPort(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), port)
}

// listenerKind describes one of the five listeners.
type listenerKind struct {
	name      string // for people
	flag      string // that sets where it listens
	advertise string // flag that sets what others are told; "" if nobody is told
	of        func(*Addresses) *string
}

// listenerKinds are all listeners.
var listenerKinds = []listenerKind{
	{"public API", "api-addr", "advertise-api-addr", func(a *Addresses) *string { return &a.API }},
	{"gateway", "gateway-addr", "advertise-gateway-addr", func(a *Addresses) *string { return &a.Gateway }},
	{"node", "node-addr", "advertise-node-addr", func(a *Addresses) *string { return &a.Node }},
	{"agent", "agent-addr", "advertise-agent-addr", func(a *Addresses) *string { return &a.Agent }},
	{"admin", "admin-addr", "", func(a *Addresses) *string { return &a.Admin }},
}

// Flags of addresses that concern several listeners.
const (
	flagHost          = "host"
	flagAdvertiseHost = "advertise-host"
)

// AddressFlags returns the names of all flags that Placement.Change reads.
func AddressFlags() []string {
	out := []string{flagHost, flagAdvertiseHost}
	for _, k := range listenerKinds {
		out = append(out, k.flag)
		if k.advertise != "" {
			out = append(out, k.advertise)
		}
	}
	return out
}

// Placement is where a node listens and what it tells others to dial.
type Placement struct {
	Listen Addresses
	// Advertise are the addresses that others dial where they differ from Listen; "" for one that
	// does not. Port 0 is the port that is listened to.
	Advertise Addresses
	Names     []string // host names and IPs in the public API's certificate, besides those of both
}

// DefaultPlacement is that of a node whose operator gives nothing: all on loopback.
func DefaultPlacement() Placement { return Placement{Listen: DefaultAddresses(hostDefault)} }

// Change returns p with what the operator gives: the value of each flag that is given, by its name
// without dashes, and names, nil for those that there are. The flag host moves all listeners but
// the admin listener that are not given themselves, and keeps their ports; a listener with port 0
// keeps the port that it has. An empty flag of advertise ends that there is such an address.
func (p Placement) Change(given map[string]string, names []string) (Placement, error) {
	for _, k := range listenerKinds {
		k.move(&p, given)
	}
	if names != nil {
		p.Names = names
	}
	return p, p.check()
}

// move sets the addresses of one listener.
func (k *listenerKind) move(p *Placement, given map[string]string) {
	to, told := k.of(&p.Listen), k.of(&p.Advertise)
	if host, ok := given[flagHost]; ok && k.advertise != "" {
		_, port, _ := net.SplitHostPort(*to)
		*to = joinPort(host, port)
	}
	if addr, ok := given[k.flag]; ok && !isSameListener(addr, *to) {
		*to = addr
	}
	if k.advertise == "" {
		return
	}
	if host, ok := given[flagAdvertiseHost]; ok {
		if *told = ""; host != "" {
			*told = joinPort(host, "0")
		}
	}
	if addr, ok := given[k.advertise]; ok {
		*told = addr
	}
}

// isSameListener reports whether a listener at have is what an operator wants who gives want:
// with port 0 any port is.
func isSameListener(want, have string) bool {
	host, port, err := net.SplitHostPort(want)
	before, _, errBefore := net.SplitHostPort(have)
	return err == nil && errBefore == nil && port == "0" && host == before
}

// check returns an invalid-input error that names the flag to change.
func (p Placement) check() error {
	for _, k := range listenerKinds {
		listen, told := *k.of(&p.Listen), *k.of(&p.Advertise)
		host, err := checkHostPort(listen)
		if err != nil {
			return api.Errorf(api.CodeInvalid, "--%s %q: %s", k.flag, listen, err.Error())
		}
		if k.advertise == "" {
			continue
		}
		if told == "" && isWildcard(host) {
			return wildcardUntold(&k, listen)
		}
		if told == "" {
			continue
		}
		host, err = checkHostPort(told)
		switch {
		case err != nil:
			return api.Errorf(api.CodeInvalid, "--%s %q: %s", k.advertise, told, err.Error())
		case isWildcard(host):
			return api.Errorf(api.CodeInvalid, "--%s %q: nobody can dial a wildcard address; give an address or a DNS name that others reach", k.advertise, told)
		case !identity.ValidHost(host):
			return api.Errorf(api.CodeInvalid, "--%s %q: %q is neither an IP address nor a DNS name", k.advertise, told, host)
		}
	}
	return nil
}

func wildcardUntold(k *listenerKind, listen string) error {
	return api.Errorf(api.CodeInvalid,
		"the %s listener is to be on %s, which is every address of the machine: nobody can dial that; give --advertise-host with the address or DNS name that others reach, or --%s",
		k.name, listen, k.advertise)
}

// checkHostPort returns the host of an address, which is empty for a wildcard.
func checkHostPort(addr string) (host string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("it must be host:port, such as 10.0.0.5:%d or [2001:db8::5]:%d", portAPI, portAPI)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "", fmt.Errorf("the port must be 0 to 65535, not %q", port)
	}
	return host, nil
}

// isWildcard reports whether a host stands for every address of a machine.
func isWildcard(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "" || err == nil && a.Unmap().WithZone("").IsUnspecified()
}

// CheckNodeToken refuses a join token that is not for the node in dir.
func CheckNodeToken(dir string, t identity.JoinToken) error {
	r, err := readRecord(dir)
	if err != nil {
		return err
	}
	return checkToken(dir, "node", r.Zone, t)
}

// CheckAgentToken refuses a join token that is not for the agent in dir.
func CheckAgentToken(dir string, t identity.JoinToken) error {
	h, err := loadHome(dir)
	if err != nil {
		return err
	}
	return checkToken(dir, "agent", h.Zone, t)
}

func checkToken(dir, kind string, of api.ZoneID, t identity.JoinToken) error {
	if t.Zone == of {
		return nil // used up
	}
	return api.Errorf(api.CodeConflict, "--join-file is a token of zone %s, and %s is the directory of a %s of zone %s: leave --join-file out, or give another --dir", t.Zone, dir, kind, of)
}

// placement returns what r records.
func (r *record) placement() Placement {
	return Placement{Listen: r.Listen, Advertise: r.Told, Names: r.Names}
}

// place records the placement of a new node.
func (r *record) place(p Placement) {
	r.Listen, r.Told, r.Names = p.Listen, p.Advertise, p.Names
	if r.Names == nil {
		r.Names = []string{}
	}
}

// apiHosts returns the names in the certificate of the public API.
func (p Placement) apiHosts() []string {
	return apiNames([]string{p.Listen.API, p.Advertise.API}, p.Names)
}

// change takes over what the operator gives, and returns what differs from before for a log:
// listeners and their addresses. What others are told of a changed listener is open until it is
// bound. certified are the names in the certificate of the public API.
func (r *record) change(given map[string]string, names, certified []string) (changed []any, err error) {
	before := r.placement()
	after, err := before.Change(given, names)
	if err != nil {
		return nil, err
	}
	for _, k := range listenerKinds {
		from, to := *k.of(&before.Listen), *k.of(&after.Listen)
		if told := *k.of(&after.Advertise); from == to && told == *k.of(&before.Advertise) {
			continue
		}
		*k.of(&r.Advertise) = ""
		changed = append(changed, k.flag, to)
	}
	if names != nil && !sameHosts(names, before.Names) {
		changed = append(changed, "api-name", strings.Join(names, ","))
	}
	if len(changed) > 0 && after.Names == nil { // of an earlier release, which did not record them
		after.Names = certified
	}
	r.Listen, r.Told, r.Names = after.Listen, after.Advertise, after.Names
	return changed, nil
}

// toBind returns the address at which a listener is to be opened: one with port 0 gets the port
// back that it had.
func (r *record) toBind(k *listenerKind) string {
	listen, before := *k.of(&r.Listen), *k.of(&r.Advertise)
	if _, port, err := net.SplitHostPort(listen); err == nil && port == "0" && before != "" && *k.of(&r.Told) == "" {
		return before
	}
	return listen
}

// noteBound records the port of a listener, and completes what others are told of it. A name
// that the operator gives stays a name.
func (r *record) noteBound(k *listenerKind, at net.Addr) error {
	listen, told, given := k.of(&r.Listen), k.of(&r.Advertise), *k.of(&r.Told)
	_, bound, err := net.SplitHostPort(at.String())
	host, port, errListen := net.SplitHostPort(*listen)
	if err != nil || errListen != nil { // of a network in memory
		if *told == "" {
			*told = at.String()
		}
		return nil
	}
	if port == "0" {
		*listen = joinPort(host, bound)
	}
	switch {
	case given != "":
		host, port, _ := net.SplitHostPort(given) // it was checked
		if port == "0" {
			port = bound
		}
		*told = joinPort(host, port)
	case *told != "":
	case identity.ValidHost(host):
		*told = joinPort(host, bound)
	default:
		*told = at.String()
	}
	if host, _, err := net.SplitHostPort(*told); k.advertise != "" && (err != nil || isWildcard(host)) {
		return wildcardUntold(k, *listen)
	}
	return nil
}

// apiHosts returns the names that the certificate of the public API should have; nil for those that it has.
func (r *record) apiHosts() []string {
	if r.Names == nil {
		return nil
	}
	return apiNames([]string{r.Listen.API, r.Advertise.API}, r.Names)
}

// apiNames returns the names in the public API's certificate: those of its addresses, and more.
func apiNames(addresses, more []string) []string {
	names := append([]string{"localhost", "127.0.0.1"}, more...)
	for _, addr := range addresses {
		if host, _, err := net.SplitHostPort(addr); err == nil && !isWildcard(host) && !slices.Contains(names, host) {
			names = append(names, host)
		}
	}
	return names
}

// sameHosts reports whether two lists name the same hosts, in any order and spelling.
func sameHosts(a, b []string) bool { return slices.Equal(hostSet(a), hostSet(b)) }

func hostSet(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = name
		if ip, err := netip.ParseAddr(name); err == nil {
			out[i] = ip.Unmap().String()
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
