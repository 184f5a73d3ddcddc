package archtest

import "strings"

// layers lists every package of the module, lowest layer first. A package may
// import packages of lower layers only. "name/..." stands for all packages below
// that folder.
var layers = [][]string{
	{"api"},
	{"api/rest", "internal/actor", "internal/adminsock", "internal/await", "internal/backoff", "internal/budget", "internal/codec", "internal/crash", "internal/dice", "internal/durable", "internal/filled", "internal/golden", "internal/goruntime", "internal/measure", "internal/requestid", "internal/sdnotify", "internal/skew", "internal/sysinfo", "internal/turns", "internal/watch"},
	{"internal/script", "internal/tracing"},
	{"binding", "capacity", "lease", "lease/recur", "preempt", "quota"},
	{"filters/query", "capacity/queue"},
	{"filters", "costs", "candidates"},
	{"buildplan", "buildplan/seal", "raftstore/command"},
	{"raftstore/state/table"},
	{"raftstore/state"},
	{"agent/driver", "internal/memstore"},
	{
		"zone", "raftstore", "gossip", "identity", "api/client", "webhook",
		"agent/driver/drivertest", "agent/driver/fake", "agent/driver/process",
	},
	{"zone/events"},
	{"zone/estimate", "zone/hooks", "zone/intake", "zone/leasecheck", "zone/output", "zone/resources", "federation"},
	{"zone/fleet", "zone/leases", "zone/saga"},
	{"zone/zonetest"},
	{"httpd/wire", "httpd/rates", "httpd/refusals", "httpd/traffic", "agent", "bench/load"},
	{"httpd/door", "httpd/events"},
	{"httpd/native", "httpd/openstack", "httpd/gateway", "httpd/agents", "httpd/admin"},
	{"httpd/placement", "httpd/reservation", "httpd/tricircle", "httpd/openstack/openstacktest"},
	{"node"},
	{"dev", "cli"},
	{"bench/zones", "bench/score"},
	{"cmd/berth", "bench/report", "bench/peers/placement"},
	{"cluster-test/check/promise"},
	{"cluster-test/check/model"},
	{"cluster-test/check", "cluster-test/lab", "cluster-test/leak", "cluster-test/simnet"},
	{"cluster-test", "cluster-test/chaos", "cluster-test/foreign", "cluster-test/mutants", "cluster-test/openstack", "cluster-test/operate", "cluster-test/rogue", "cluster-test/sim", "cluster-test/suite", "cluster-test/upgrade", "bench", "internal/archtest"},
}

// free packages measure and test the others. They may use any library and nothing imports
// them: they are the highest layer.
var free = []string{
	"cluster-test", "cluster-test/chaos", "cluster-test/check", "cluster-test/foreign", "cluster-test/lab", "cluster-test/leak", "cluster-test/mutants",
	"cluster-test/openstack", "cluster-test/operate", "cluster-test/rogue", "cluster-test/sim", "cluster-test/suite", "cluster-test/upgrade", "cluster-test/simnet", "bench", "internal/archtest",
}

// pure packages have no clock, no randomness, no I/O, no goroutine, no lock and no log.
var pure = []string{
	"api", "api/rest", "binding", "capacity", "capacity/queue", "lease", "lease/recur", "preempt", "quota", "filters/query", "filters", "costs", "candidates",
	"buildplan", "buildplan/seal", "raftstore/command", "raftstore/state/table", "raftstore/state", "bench/score",
}

// tools serve tests alone: they may use test libraries, and no package that is
// not one of them or free may import them.
var tools = []string{"agent/driver/drivertest", "httpd/openstack/openstacktest", "internal/await", "internal/dice", "internal/filled", "internal/golden", "internal/script", "internal/memstore", "zone/zonetest"}

// independent packages judge others, and may import no packages of ours but these.
var independent = map[string][]string{
	"cluster-test/check/model": {"api", "raftstore/command", "cluster-test/check/promise"},
}

// doors says which packages may import a library, by the start of its import
// path. A library without a door here may not be imported at all.
var doors = map[string][]string{
	"github.com/HdrHistogram/hdrhistogram-go": {"bench/load"},
	"github.com/fxamacker/cbor":               {"internal/codec"},
	"github.com/getkin/kin-openapi":           tools,
	"github.com/go-chi/chi":                   {"httpd/native", "httpd/openstack", "httpd/gateway", "httpd/agents", "httpd/admin"},
	"github.com/goccy/go-yaml":                {"cli", "cmd/berth"},
	"github.com/hashicorp/go-hclog":           {"raftstore"},
	"github.com/hashicorp/golang-lru/v2":      {"httpd/rates"},
	"github.com/hashicorp/memberlist":         {"gossip"},
	"github.com/hashicorp/raft":               {"raftstore"}, // and raft-boltdb
	"github.com/prometheus":                   {"httpd/admin"},
	"github.com/spf13/cobra":                  {"cli", "cmd/berth"},
	"github.com/tidwall/btree":                {"raftstore/state/table"},
	"go.etcd.io/bbolt":                        {"raftstore"},
	"golang.org/x/crypto":                     {"buildplan/seal", "identity"},
	"golang.org/x/sync":                       {"zone", "gossip", "agent", "node"},
	"github.com/itchyny/gojq":                 {"cli"},
	"golang.org/x/sys":                        {"internal/sdnotify", "internal/sysinfo", "agent/driver/process"},
	"golang.org/x/term":                       {"cli"},
	"gonum.org/v1/plot":                       {"bench/report"},
	"testing":                                 tools,
	"github.com/stretchr/testify":             tools,
	"go.uber.org/goleak":                      tools,
	"pgregory.net/rapid":                      tools,
	"github.com/stretchr/testify/mock":        nil, // fakes are written by hand
	"github.com/stretchr/testify/suite":       nil, // plain tests and helpers
	"github.com/hashicorp/go-multierror":      nil, // errors.Join
}

// impure lists what pure packages must not import, by the start of its path up
// to a slash or the end.
var impure = []string{
	"context", "crypto/rand", "golang.org/x/sync", "golang.org/x/sys", "log", "math/rand", "net/http",
	"os", "runtime", "sync", "syscall", "testing",
}

// impureExact lists what is impure itself but not in its folders: net/netip and
// net/url hold values only.
var impureExact = []string{"net"}

// clock lists the functions of package time that read the clock or wait.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// excuse lets one pure package use, of one impure package, the names that only
// admits.
type excuse struct {
	pkg, imp string
	only     func(name string) bool
	why      string
}

// excused lists every exception there is.
var excused = []excuse{
	{"api/rest", "net/http", func(n string) bool { return isStatus(n) || strings.HasPrefix(n, "Method") }, "routes have methods and statuses, which are constants"},
	{"api", "net/http", isStatus, "error codes have HTTP statuses, which are numbers"},
	{"api", "crypto/rand", func(n string) bool { return n == "Read" }, "NewUUID and NewReservationID are for shells"},
}

// Limits of one non-test file and of one function outside tests, in lines.
// Lines that hold a comment alone do not count against a function.
const (
	fileLinesMax = 600
	funcLinesMax = 70
)
