package operate

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
)

// unread has why a block of docs/runbooks.md is not run.
var unread = map[string]string{
	"BerthLeaderChanges: journalctl -u berth-node -g 'leadership changed|stepping down'": "needs a quarter of an hour",
	"BerthLogSlow: iostat -x 5":  "needs ten minutes with a slow disk; iostat does not end",
	"BerthDiskSlow: iostat -x 5": "needs ten minutes with a slow disk; iostat does not end",
	"BerthNodeBehind: curl -s --unix-socket /var/lib/berth/admin.sock http://node/state": "needs 1000 entries that a node does not apply; top does not end",
	"BerthStateLarge: berth reservation list --all-projects --limit 20":                  "needs 700 MB of state",
	"BerthErrors: journalctl -u berth-node -p err -n 50":                                 "needs a defect of Berth",
	"BerthCallsRefused: berth operator members":                                          "needs ten minutes",
	"BerthCallsWait: berth operator members":                                             "needs ten minutes of load; top does not end",
	"BerthLinkFails: berth zone show LINK":                                               "needs ten minutes of failing calls",
	"BerthHoldsUndecided: berth hold list":                                               "is looking only; the rest is that of BerthLinkDown",
	"BerthBootsStuck: berth reservation list --all-projects -o wide":                     "needs a quarter of an hour",
	"BerthNoRoom: berth capacity":                                                        "is looking only; the rest is that of a boot that is refused for want of room",
	"BerthClockSkew: berth operator members":                                             "needs a clock that changes while its process runs; cluster-test/operate breaks one before a start, and node tests the rest",
	"BerthDiskFills: berth operator autopilot show":                                      "needs six hours of growth",
	"BerthUpgradeOpen: berth operator upgrade status":                                    "needs the release before: cluster-test/upgrade",
	"BerthLeasesLate: berth lease list":                                                  "needs a zone that does nothing, which is BerthNoLeader",
	"BerthWebhooksLate: berth webhook list --all-projects":                               "needs ten minutes",
	"BerthStrangers: journalctl -u berth-node -g 'authentication refused' -n 20":         "needs thousands of callers",
}

const lookAtMembers = "berth operator members"

// node is a block that is run on one node, and what calls the zone at another one.
func node(first, at string) step {
	return step{first: first, at: at, lines: map[string]place{"berth operator": {at: "node-1"}}}
}

// aboutNodes is what happens to the nodes of a zone of three.
func aboutNodes(w *story) []situation {
	w.operator = "node-1"
	w.found("west", "node-1")
	w.joinAgent("h1", "west")
	w.joinNode("node-2", "west")
	w.joinNode("node-3", "west")
	restart := book{section: "BerthNodeDown", step: node("systemctl start berth-node", "node-2")}
	return append([]situation{
		{
			name:   "a node has ended",
			breaks: func(w *story) { w.at("node-2").kill(data) },
			alert:  "BerthNodeDown",
			books:  []book{{section: "BerthNodeDown", step: node(lookAtMembers, "node-2")}, restart},
		},
		{
			name: "the clock of a node is wrong when it starts",
			breaks: func(w *story) {
				w.at("node-3").stop(data)
				w.at("node-3").clock = "-17520h"
				w.supervise(w.at("node-3"), "start", "berth-node")
			},
			alert: "BerthMemberSilent",
			sign:  symptom{place{at: "node-3", line: "journalctl -u berth-node -n 1000 | tac | sed -n '/node started/,$p' | sed -n 2,4p | grep ."}, "the clock of this machine is wrong"},
			books: []book{
				{section: "BerthMemberSilent", step: node(lookAtMembers, "node-1")},
				{section: "BerthMemberSilent", step: step{
					first: "journalctl -u berth-node -g 'clock|not yet valid' -n 5", at: "node-3", lines: map[string]place{"timedatectl": {at: skipped}},
					before: func(w *story) { w.at("node-3").clock = "" }, // what timedatectl would do
				}},
			},
		},
		{
			name: "the disk of a node is full",
			given: func(w *story) {
				w.at("node-2").stop(data)
				w.at("node-2").do("cp -a " + data + " kept && mount -t tmpfs -o size=64m none " + data + " && cp -a kept/. " + data + " && rm -r kept")
				w.supervise(w.at("node-2"), "start", "berth-node")
				w.at("node-2").until("curl -sf 127.0.0.1:7604/readyz", "")
			},
			breaks: func(w *story) {
				w.at("node-2").do("cat /dev/zero > " + data + "/core || true")
				for n := 0; w.at("node-2").runs(data); n++ { // every node writes it to its log
					w.until(fmt.Sprintf("berth flavor create full-%d --vcpus 1 --ram 64M --command -- /bin/echo $(head -c 3000 /dev/zero | tr '\\0' x)", n), "")
				}
			},
			alert: "BerthNodeDown",
			books: []book{
				{section: "BerthNodeDown", step: node(lookAtMembers, "node-2")},
				{section: "BerthNodeDown", step: step{first: "df -h /var/lib/berth", at: "node-2", after: func(w *story) {
					assert.Contains(w.t, w.said, "100%")
					assert.Contains(w.t, w.at("node-2").do("journalctl -u berth-node -n 5"), "no space left on device")
					w.at("node-2").do("rm " + data + "/core")
				}}},
				restart,
			},
		},
		{
			name: "a removed node has the keys of the zone",
			given: func(w *story) {
				w.joinNode("node-4", "west")
			},
			breaks: func(w *story) {
				delete(w.watched, "node-3")
				w.until("berth operator remove node-3 --yes", "")
				w.at("node-3").kill(data)
			},
			alert: "BerthKeysDue",
			books: []book{
				{section: "BerthKeysDue", step: step{first: "berth operator ca status"}},
				{section: "BerthKeysDue", step: step{first: "berth operator ca rotate", after: func(w *story) {
					w.do("export BERTH_CACERT=/root/ca.pem")
				}}},
			},
		},
		{
			name: "a file of a node is damaged",
			breaks: func(w *story) {
				w.at("node-2").stop(data)
				w.at("node-2").do("shred -n 1 -s 60000 " + data + "/raft/raft.db")
				w.supervise(w.at("node-2"), "start", "berth-node")
			},
			alert: "BerthNodeDown",
			sign:  symptom{place{at: "node-2", line: "berth operator log --dir /var/lib/berth --limit 1 || true"}, "damaged|replace"},
			books: []book{{section: "BerthNodeDown", fill: map[string]string{"NODE": "node-2", "OTHER": "node-5", "ADDRESS": addresses["node-5"]}, step: step{
				first: "berth operator remove NODE --yes",
				lines: map[string]place{"berth node": {at: "node-5"}},
				before: func(w *story) {
					w.at("node-5").equip()
					delete(w.watched, "node-2")
				},
				after: func(w *story) {
					w.votes("node-5")
					w.watch("node-5", "west", w.at("node-5").admin)
					w.at("node-2").do("rm -r /var/lib/berth/*")
				},
			}}},
		},
		{
			name: "a majority of the nodes is lost",
			breaks: func(w *story) {
				for _, lost := range []string{"node-4", "node-5"} {
					w.at(lost).kill(data)
					delete(w.watched, lost)
				}
			},
			alert: "BerthNoLeader",
			books: []book{
				{section: "BerthNoLeader", step: step{first: lookAtMembers}},
				{section: "BerthNoLeader", step: step{first: "systemctl stop berth-node"}},
			},
		},
	}, aboutOneNode()...)
}

// aboutOneNode is what happens to the only node of a zone.
func aboutOneNode() []situation {
	lastLine := place{at: "node-1", line: "journalctl -u berth-node -n 1"}
	const backups = "/var/backups/berth"
	return []situation{
		{
			name: "the key file of a node is wrong",
			breaks: func(w *story) {
				w.do("cp /var/lib/berth/kek right.kek && berth init --dir other --name other > /dev/null")
				w.supervise(w.at("node-1"), "stop", "berth-node")
				w.do("cp other/kek /var/lib/berth/kek")
				w.supervise(w.at("node-1"), "start", "berth-node")
			},
			alert: "BerthKEKMissing",
			sign:  symptom{place{at: "node-1", line: "berth operator keyring rotate"}, "does not have the zone's newest key-encryption key"},
			books: []book{
				{section: "BerthKEKMissing", step: step{first: lookAtMembers}},
				{section: "BerthKEKMissing", step: step{first: "systemctl stop berth-node"}, fill: map[string]string{"KEK": "right.kek"}},
			},
		},
		{
			name: "two processes have one folder",
			breaks: func(w *story) {
				_, _, err := w.at("node-1").try("berth node --dir /var/lib/berth >> " + w.at("node-1").journal("berth-node") + " 2>&1")
				assert.Error(w.t, err)
			},
			sign:  symptom{lastLine, "address already in use"},
			books: []book{{section: "An address is taken, or two processes have one folder", step: step{first: "pgrep -a berth"}}},
		},
		{
			name: "nobody can dial a node",
			breaks: func(w *story) {
				w.supervise(w.at("node-1"), "stop", "berth-node")
				w.at("node-1").start("berth node --dir /var/lib/berth --host 0.0.0.0")
			},
			alert: "BerthNodeDown",
			sign:  symptom{lastLine, "nobody can dial that"},
			books: []book{{
				section: "Nobody can dial the address of a node", fill: map[string]string{"ADDRESS": addresses["node-1"]},
				step: step{first: "berth node --dir /var/lib/berth --host 0.0.0.0 --advertise-host ADDRESS"},
			}},
		},
		{
			name: "a configuration file has a mistake",
			given: func(w *story) {
				w.do("printf 'dir: /var/lib/berth\\nbackup-dir: " + backups + "\\nbackup-keep: 7\\n' > node.yaml && mkdir -p -m 700 " + backups)
				w.at("node-1").units["berth-node"] = "berth node --config node.yaml --dir /var/lib/berth"
				w.supervise(w.at("node-1"), "restart", "berth-node")
				w.until("ls "+backups+" | grep 'backup$'", "Z.backup")
			},
			breaks: func(w *story) {
				w.do("sed -i s/keep:.*/keep:\\ 0/ node.yaml")
				w.supervise(w.at("node-1"), "restart", "berth-node")
			},
			alert: "BerthNodeDown",
			sign:  symptom{place{at: "node-1", line: "berth config check node.yaml"}, "node.yaml:3: backup-keep: .*allowed is: 1 to 1000"},
			books: []book{{section: "A configuration file is refused", fill: map[string]string{"FILE": "node.yaml"}, step: step{
				first: "berth config check FILE", before: func(w *story) { w.do("sed -i s/keep:.*/keep:\\ 7/ node.yaml") },
			}}},
		},
		{
			name: "backups are not written",
			breaks: func(w *story) {
				w.supervise(w.at("node-1"), "stop", "berth-node")
				old := time.Now().UTC().Add(-3 * 24 * time.Hour).Format("20060102T150405Z")
				w.do("mv " + backups + "/*.backup " + backups + "/west-" + old + ".backup && mount --bind " + backups + " " + backups + " && mount -o remount,ro,bind " + backups)
				w.supervise(w.at("node-1"), "start", "berth-node")
			},
			alert: "BerthBackupOld",
			sign:  symptom{place{at: "node-1", line: "curl -s --unix-socket /var/lib/berth/admin.sock http://node/state"}, "read-only file system"},
			books: []book{
				{section: "BerthBackupOld", step: step{first: "berth operator snapshot save FILE"}, fill: map[string]string{"FILE": "by-hand.backup"}},
				{section: "BerthBackupOld", step: step{first: "curl -s --unix-socket /var/lib/berth/admin.sock http://node/state", before: func(w *story) { w.do("umount " + backups) }}},
			},
		},
	}
}
