package operate

import (
	"fmt"

	"github.com/stretchr/testify/assert"
)

// cut takes a machine off the network, and mend puts it back.
func (w *story) cut(name string)  { w.enter(w.bridge, "ip link set to-"+name+" down") }
func (w *story) mend(name string) { w.enter(w.bridge, "ip link set to-"+name+" up") }

const agentData = "/var/lib/berth-agent"

// host is a block that is run on a host, with what calls the zone run elsewhere.
func host(first, at string) step {
	elsewhere := place{at: "node-1"}
	return step{first: first, at: at, lines: map[string]place{"berth join-token": elsewhere, "berth host": elsewhere, "berth agent": {at: at}}}
}

// aboutHosts is what happens to the hosts of a zone.
func aboutHosts(w *story) []situation {
	w.operator = "node-1"
	w.found("west", "node-1")
	w.joinAgent("h1", "west")
	w.joinAgent("h2", "west")
	w.do("berth host disable h2")
	return append([]situation{
		{
			name: "there is no room for a boot",
			breaks: func(w *story) {
				w.do("berth host disable h1")
				_, _, err := w.at("node-1").try("berth boot --flavor small --name none --count 1")
				assert.Error(w.t, err)
			},
			sign: symptom{place{at: "node-1", line: "berth boot --flavor small --name none --count 1 --plan"}, "only 0 of at least 1 instance would fit"},
			books: []book{{
				section: "A boot is refused for want of room", step: step{first: "berth explain RESERVATION"},
				fill: map[string]string{"RESERVATION": "$(berth reservation list --state FAILED -o name --limit 1)", "HOST": "h1"},
			}},
		},
		{
			name: "a host has more on it than it should",
			breaks: func(w *story) {
				w.do("berth boot --flavor small --name web --count 2")
				w.do("berth provider inventory set h1 VCPU=1")
			},
			sign: symptom{place{at: "node-1", line: "berth provider usage h1"}, `VCPU +2 +1 +-1 `},
			books: []book{
				{section: "A host has more on it than it should", step: step{first: "berth provider usage HOST"}, fill: map[string]string{"HOST": "h1"}},
				{section: "A host has more on it than it should", step: step{first: "berth provider inventory set HOST CLASS=TOTAL"}, fill: map[string]string{"HOST": "h1", "CLASS": "VCPU", "TOTAL": "4"}},
			},
		},
		{
			name:   "a drain does not end",
			breaks: func(w *story) { w.do("berth host drain h1 --policy move") },
			sign:   symptom{place{at: "node-1", line: "berth host show h1"}, `STILL TO LEAVE +2`},
			books: []book{{
				section: "A drain does not end", step: step{first: "berth host drain HOST --what-if"}, fill: map[string]string{"HOST": "h1", "OTHER": "h2"},
			}},
			healed: func(w *story) { w.do("berth host undrain h1") },
		},
		{
			name: "the folder of an agent was copied",
			breaks: func(w *story) {
				w.at("h1").do("tar czf agent.tgz -C /var/lib berth-agent")
				m := w.at("copy")
				m.equip()
				w.at("h1").copy("agent.tgz", m, "agent.tgz")
				m.do("tar xzf agent.tgz -C /var/lib")
				m.start("berth agent --dir " + agentData)
			},
			sign: symptom{place{at: "copy", line: "journalctl -u berth-agent -n 1"}, "runs already"},
			books: []book{{
				section: "The folder of an agent was copied", step: host("rm -r /var/lib/berth-agent", "copy"),
				fill: map[string]string{"AGENT": "agent-copy", "HOST": "copy"},
			}},
			healed: func(w *story) { assert.Contains(w.t, w.do("berth host list --state up -o name"), "h1\n") },
		},
	}, aboutLostHosts()...)
}

// aboutLostHosts is what happens when hosts are not heard of.
func aboutLostHosts() []situation {
	down := book{section: "BerthHostsDown", step: step{first: "berth host list"}}
	return []situation{
		{
			name:   "an agent is cut off",
			breaks: func(w *story) { w.cut("h1") },
			alert:  "BerthAgentCutOff",
			books: []book{{section: "BerthAgentCutOff", step: step{first: "journalctl -u berth-agent -n 20", at: "h1", after: func(w *story) {
				assert.Contains(w.t, w.said, "calls to the zone fail")
				w.mend("h1")
			}}}},
		},
		{
			name: "a host is lost",
			breaks: func(w *story) {
				w.at("h2").kill(agentData)
				delete(w.watched, "h2")
			},
			alert: "BerthHostsDown",
			books: []book{down, {section: "BerthHostsDown", step: step{first: "berth host forget HOST --lost"}, fill: map[string]string{"HOST": "h2"}}},
		},
		{
			name: "an agent was revoked",
			breaks: func(w *story) {
				w.do("berth agent revoke agent-h1 --yes")
				delete(w.watched, "h1")
			},
			alert: "BerthHostsDown",
			sign:  symptom{place{at: "node-1", line: "berth agent list --no-headers"}, `(?m)^agent-h1 .*Z .*ms +yes `},
			books: []book{down, {section: "BerthHostsDown", step: host("systemctl stop berth-agent", "h1"), fill: map[string]string{"AGENT": "agent-h1", "HOST": "h1"}}},
		},
	}
}

// aboutZones is what happens to a zone below another one.
func aboutZones(w *story) []situation {
	w.operator = "east"
	w.found("east", "east")
	w.joinAgent("h2", "east")
	w.operator = "region"
	w.found("region", "region")
	w.joinAgent("h1", "region")
	w.do("berth zone link-token east > link.token")
	w.at("region").copy("link.token", w.at("east"), "link.token")
	w.at("east").until("berth zone link --link-token-file link.token", "")
	w.until("berth zone list", "up")
	look := book{section: "BerthLinkDown", step: step{first: "berth zone show LINK"}, fill: map[string]string{"LINK": "east"}}
	repair := look
	repair.after = func(w *story) { w.mend("east") }
	return []situation{
		{
			name:   "a child is not reached",
			given:  func(w *story) { delete(w.watched, "east") },
			breaks: func(w *story) { w.cut("east") },
			alert:  "BerthLinkDown",
			books:  []book{repair},
		},
		{
			name: "a child came back from a backup",
			breaks: func(w *story) {
				m := w.at("east")
				m.do("berth operator snapshot save east.backup && cp /var/lib/berth/kek .")
				m.kill(data)
				m.do("rm -r /var/lib/berth")
				token := m.do("berth init --dir /var/lib/berth --from-backup east.backup --kek kek --host " + addresses["east"])
				w.operator = "east"
				w.serve(m, "node", "berth node --dir "+data)
				m.knows(addresses["east"]+":7600", token)
				w.operator = "region"
			},
			alert: "BerthLinkUnconfirmed",
			books: []book{{section: "BerthLinkUnconfirmed", step: step{first: "berth zone show LINK"}, fill: map[string]string{"LINK": "east"}}},
		},
		{
			name: "the command line does not trust the zone",
			breaks: func(w *story) {
				w.at("east").copy("/var/lib/berth/ca.pem", w.at("region"), "east.pem")
				w.do("export BERTH_CACERT=east.pem")
			},
			sign:  symptom{place{at: "region", line: "berth zone info"}, "that is not trusted"},
			books: []book{{section: "The command line does not trust the zone", step: step{first: "export BERTH_CACERT=/var/lib/berth/ca.pem"}}},
		},
		{
			name:   "the clock of a caller is wrong",
			breaks: func(w *story) { w.at("region").clock = "-72h" },
			sign:   symptom{place{at: "region", line: "berth zone info"}, `not yet valid(.|\n)*hint: compare the clock of this machine`},
			books: []book{{section: "The clock of the machine of a caller is wrong", step: step{
				first: "date", lines: map[string]place{"timedatectl": {at: skipped}},
				before: func(w *story) { w.at("region").clock = "" }, // what timedatectl would do
			}}},
		},
		{
			name:   "a child is lost for good",
			breaks: func(w *story) { w.at("east").kill(data) },
			alert:  "BerthLinkDown",
			books:  []book{look, {section: "BerthLinkDown", step: step{first: "berth zone pause LINK"}, fill: look.fill}},
			healed: func(w *story) { assert.Empty(w.t, w.do("berth zone list --jq '.zones[] | select(.name == \"east\")'")) },
		},
	}
}

// aboutYears is what happens to an agent that is off until its certificate has ended.
func aboutYears(w *story) []situation {
	w.operator = "node-1"
	w.found("west", "node-1")
	w.joinAgent("h1", "west")
	later := func(days int) {
		for _, name := range []string{"node-1", "h1"} {
			w.at(name).clock = fmt.Sprintf("%dh", 24*days)
		}
		w.supervise(w.at("node-1"), "restart", "berth-node")
		w.until("curl -sf 127.0.0.1:7604/readyz", "")
	}
	return []situation{{
		name: "the certificate of an agent has ended",
		breaks: func(w *story) {
			w.at("h1").stop(agentData)
			later(280)
			w.until("curl -s 127.0.0.1:7604/metrics | awk '/^berth_certificate_expiry_seconds/ && $2 < 300 * 86400 {old = 1} /^berth_certificate_expiry_seconds/ {n++} END {print (n > 0 && !old)}'", "1\n")
			later(400)
			w.supervise(w.at("h1"), "start", "berth-agent")
		},
		alert: "BerthCertificateEnds",
		books: []book{
			{section: "BerthCertificateEnds", step: step{first: lookAtMembers}},
			{section: "BerthHostsDown", step: host("systemctl stop berth-agent", "h1"), fill: map[string]string{"AGENT": "agent-h1", "HOST": "h1"}},
		},
	}}
}
