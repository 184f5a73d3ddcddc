package operate

import (
	"strings"

	"github.com/stretchr/testify/assert"
)

const data = "/var/lib/berth"

// steps has one step for each block of docs/operate.md, in its order.
var steps = []step{
	{
		first: `berth config show > node.yaml       # all settings and their defaults, as comments`,
		after: func(w *story) { assert.Equal(w.t, "ok\n", w.said) },
	},
	{
		first: `umask 077                                                                   # secrets are for you alone: a file of a token or a key that others can read is refused`,
		lines: map[string]place{
			"berth node --dir /var/lib/berth --join-file":        {at: "node-2"},
			"berth agent --dir /var/lib/berth-agent --join-file": {at: "h1"},
		},
		after: func(w *story) { w.votes("node-2") },
	},
	{
		first:  `berth zone link-token west --weight-offset 64G > link.token                 # at the parent`,
		at:     "region",
		lines:  map[string]place{"berth zone link --link-token-file": {at: "node-1"}},
		before: (*story).makeRegion,
		after:  func(w *story) { w.at("region").until("berth zone list", "up") },
	},
	{first: `{"reason":"a lease needs the room","for":"5f0c...","deadline":"2026-11-24T09:00:00Z","seconds_left":60,"action":"stop"}`, notRun: "a file that an instance reads"},
	{
		first: `curl -s --unix-socket /var/lib/berth/admin.sock http://node/state        # {"index":4711,"sha256":"9f86d0..."}`,
		after: func(w *story) { assert.Regexp(w.t, `^\{"index":\d+,"sha256":"[0-9a-f]{64}"`, w.said) },
	},
	{first: `scrape_configs:`, notRun: "a part of a file of Prometheus"},
	{
		first: `curl -s --unix-socket /var/lib/berth/admin.sock -o cpu.pprof 'http://node/debug/pprof/profile?seconds=20'   # go tool pprof cpu.pprof`,
		lines: map[string]place{"curl -s --unix-socket /var/lib/berth/admin.sock -o cpu.pprof": {at: skipped}}, // it takes 20 s
		after: func(w *story) { assert.Contains(w.t, w.said, "goroutine ") },
	},
	{
		first: `berth operator debug --out report.tar.gz --cpu 10s`,
		after: func(w *story) { assert.Contains(w.t, w.do("tar tzf report.tar.gz"), "manifest") },
	},
	{
		first:  `berth agent --dir /var/lib/berth-agent --join-file agent.token --trait CUSTOM_SSD --attribute price=3 --attribute ip=10.0.0.9`,
		at:     "h2",
		before: func(w *story) { w.sendToken("agent", "rack2", "h2", "agent.token") },
		after:  func(w *story) { assert.Contains(w.t, w.do("berth host show h2 -o json"), "CUSTOM_SSD") },
	},
	{
		first: `berth host set h1 --pool reservable`,
		after: func(w *story) { assert.Contains(w.t, w.do("berth host show h1"), "reservable") },
	},
	{first: `$ berth operator config set --lease-max-duration 168h --lease-extension-window 48h --lease-exempt ops`},
	{
		first:  `$ berth operator config set --webhook-network 10.1.0.0/16`,
		before: func(w *story) { w.do("echo secret > token") },
		after:  func(w *story) { w.do("berth operator config set --lease-check-url ''") },
	},
	{first: `$ berth operator config set --preemptible-grace 2m --preemptible-way hint --preemptible-way flavor`},
	{
		first: `berth provider create h1-gpu0 --parent h1                    # a part: its inventory is for instances on h1`,
		after: func(w *story) { assert.Contains(w.t, w.do("berth capacity"), "PGPU") },
	},
	{
		first:  `berth host drain h1 --policy move --wait      # or end, or wait`,
		before: func(w *story) { w.do("berth host set h1 --pool shared") },
	},
	{
		first:  `berth host drain h1 h2 h3 --what-if --at 2030-01-31T02:00Z`,
		before: func(w *story) { w.addHost("h3") },
	},
	{
		first: `$ berth host forget h1 --lost`,
		before: func(w *story) {
			w.do("berth flavor create sleeper --vcpus 1 --ram 64M --command -- /bin/sleep 3600")
			w.do("berth provider delete h1-gpu0 --yes")
			w.do("berth boot --flavor sleeper --name web --count 6")
			w.at("h1").kill("/var/lib/berth-agent")
		},
		after: func(w *story) { assert.NotContains(w.t, w.do("berth host list -o name"), "h1\n") },
	},
	{
		first: `useradd --system --home-dir /var/lib/berth --shell /usr/sbin/nologin berth`,
		at:    "supervised",
		after: func(w *story) {
			assert.Equal(w.t, "berth 700\n", w.at("supervised").do("stat -c '%U %a' /var/lib/berth"))
			assert.Equal(w.t, "600\n", w.at("supervised").do("stat -c %a admin.token"))
		},
	},
	{
		first:  `install -D -m 644 deploy/systemd/berth-node.service /etc/systemd/system/berth-node.service`,
		notRun: "the machines have no systemd; the units are verified by a test in cmd/berth",
	},
	{
		first: `berth operator log-level debug`,
		after: func(w *story) {
			assert.Contains(w.t, w.said, "debug")
			w.do("berth operator log-level info")
		},
	},
	{
		first: `berth operator remove node-2 --yes                                            # at a running node; without --yes it asks for confirmation`,
		lines: map[string]place{"berth node --dir /var/lib/berth-4": {at: "node-2"}},
		before: func(w *story) {
			w.sendToken("node", "node-3", "node-3", "join.token")
			w.serve(w.at("node-3"), "node", "berth node --dir /var/lib/berth --join-file join.token --host 10.0.0.7")
			w.votes("node-3")
			w.at("node-2").kill(data)
		},
		after: func(w *story) { w.votes("node-4") },
	},
	{
		first: `berth operator recover --dir /var/lib/berth              # on the stopped node; prints what it has, and asks`,
		before: func(w *story) {
			w.at("node-3").kill(data)
			w.at("node-2").kill("/var/lib/berth-4")
			w.at("node-1").stop(data)
		},
		after: func(w *story) {
			assert.Equal(w.t, "node-1\n", w.do("berth operator members --jq '.members[].id'"))
			w.until("berth host list --state up -o name", "h3\n")
		},
	},
	{
		first: `berth operator autopilot set --remove-dead-after 24h`,
		after: func(w *story) { assert.Contains(w.t, w.said, "24h") },
	},
	{
		first:  `berth node --dir /var/lib/berth --host 10.0.9.6                                                    # all listeners but admin; their ports stay`,
		before: func(w *story) { w.do("ip addr add 10.0.9.6/8 dev eth0") },
		after: func(w *story) {
			w.do("export BERTH_ADDR=https://10.0.9.6:443")
			w.until("berth operator members", "10.0.9.6")
			w.at("region").until("berth zone show west", "10.0.9.6:7601")
		},
	},
	{
		first: `berth node --dir /var/lib/berth --join-file join.token --host 0.0.0.0 --advertise-host west-2.example`,
		at:    "node-2",
		before: func(w *story) {
			w.at("node-2").do("rm -rf /var/lib/berth /var/lib/berth-4")
			for _, name := range []string{"node-1", "node-2", "h2", "h3", "region"} {
				w.at(name).do("echo 10.0.0.6 west-2.example >> /etc/hosts")
			}
			w.sendToken("node", "node-5", "node-2", "join.token")
		},
		after: func(w *story) {
			w.votes("node-5")
			assert.Contains(w.t, w.do("berth operator members"), "west-2.example:7601")
		},
	},
	{
		first: `berth operator upgrade status`,
		lines: map[string]place{"berth operator upgrade finish": {at: skipped}}, // all nodes are of one release; cluster-test/upgrade finishes an upgrade
		after: func(w *story) { assert.Regexp(w.t, `PHASE +finished`, w.said) },
	},
	{
		first: `berth node --dir /var/lib/berth --backup-dir /var/backups/berth --backup-every 6h --backup-keep 28`,
		after: func(w *story) { w.until("ls /var/backups/berth | grep 'backup$'", "Z.backup") },
	},
	{
		first: `berth operator snapshot inspect /var/backups/berth/west-20261127T060000Z.backup --kek kek`,
		before: func(w *story) {
			w.do("cp /var/lib/berth/kek . && cd /var/backups/berth && mv *.backup west-20261127T060000Z.backup")
		},
		after: func(w *story) { assert.Regexp(w.t, `(?m)^ZONE +west$`, w.said) },
	},
	{
		first: `berth operator snapshot inspect west.backup --kek kek`,
		at:    "new",
		before: func(w *story) {
			w.do("cp /var/backups/berth/*.backup west.backup")
			for _, file := range []string{"west.backup", "kek"} {
				w.at("node-1").copy(file, w.at("new"), file)
			}
			w.at("node-1").kill(data)
			w.at("node-2").kill(data)
		},
		after: func(w *story) {
			w.operator = "new"
			w.at("new").knows("10.0.0.9:7600", w.said)
			for _, host := range []string{"h2", "h3"} {
				m := w.at(host)
				m.stop("/var/lib/berth-agent")
				m.do(`sed -i 's/"addresses": *\[[^]]*\]/"addresses":["10.0.0.9:7603"]/' /var/lib/berth-agent/agent.json`)
				w.serve(m, "agent", "berth agent --dir /var/lib/berth-agent")
			}
		},
	},
	{
		first: `berth zone relink west                              # or, if its gateways have new addresses:`,
		at:    "region",
		lines: map[string]place{"berth zone relink west    ": {at: skipped}},
		after: func(w *story) { w.at("region").until("berth zone list", "up") },
	},
	{
		first:  `berth operator ca rotate`,
		before: func(w *story) { w.do("berth agent revoke rack1 --yes") }, // its host is gone for good
		after:  (*story).nobodyIsLeft,
	},
	{first: `berth operator ca show > ca.pem.new && mv ca.pem.new ca.pem`, after: (*story).nobodyIsLeft},
	{
		first: `berth operator ca finish`,
		after: func(w *story) { assert.Contains(w.t, w.do("berth operator ca status"), "stable") },
	},
	{
		first: `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 90 -subj /CN=berth -addext subjectAltName=DNS:west.example,IP:10.0.0.9 -keyout api-key.pem -out api-cert.pem`,
		after: func(w *story) {
			ends := w.do("date -u -d \"$(openssl x509 -in api-cert.pem -noout -enddate | cut -d= -f2)\" +%Y-%m-%d")
			w.until("berth operator members", strings.TrimSpace(ends))
		},
	},
	{first: `install -m 600 -o berth /etc/letsencrypt/live/west.example/privkey.pem /etc/berth/api-key.pem`, notRun: "certbot needs a public name"},
	{
		first: `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj '/CN=Berth zone CA' -addext "subjectAltName=URI:berth://$(cat /proc/sys/kernel/random/uuid)" -addext basicConstraints=critical,CA:TRUE,pathlen:0 -addext keyUsage=critical,keyCertSign -keyout zone-key.pem -out zone-ca.pem`,
		after: func(w *story) { w.do("cmp zone-ca.pem /var/lib/berth-own/ca.pem") },
	},
	{
		first: `$ berth zone set west --weight-offset 64G     # work goes there when its hosts have 64 GiB more free memory than others`,
		at:    "region",
	},
	{
		first: `$ berth zone set west --gateway 10.2.0.5:7601 --gateway 10.2.0.6:7601`,
		at:    "region",
		after: func(w *story) {
			w.at("region").do("berth zone set west --gateway 10.0.0.9:7601")
			w.at("region").until("berth zone list", "up")
		},
	},
	{first: `$ berth operator config set --fanout all`, at: "region"},
	{
		first: `$ berth zone set parent --share-held 25 --share-committed 80`,
		after: func(w *story) { assert.Contains(w.t, w.said, "25") },
	},
	{first: `$ berth operator config set --public-attribute gpu_model --public-attribute price`},
	{first: `$ berth operator config set --hide-layout`},
	{
		first: `$ berth zone pause west`,
		at:    "region",
		after: func(w *story) { assert.Empty(w.t, w.at("region").do("berth zone list -o name")) },
	},
}

// nobodyIsLeft waits until a change of the authority may go on.
func (w *story) nobodyIsLeft() {
	w.t.Helper()
	w.until("berth operator ca status --jq '(.waits // .authority.waits) == []'", "true")
}
