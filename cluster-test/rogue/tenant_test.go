package rogue

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/quota"
)

// mallory is the project of the rogue tenant.
const mallory = "mallory"

// quotas of mallory: as an operator of a small zone sets them.
var quotas = map[quota.Item]int64{
	quota.Boots: 20, quota.Records: 500, quota.Data: 1 << 20, quota.ServerGroups: 50, quota.Instances: 50, quota.Volumes: 10,
	quota.Leases: 2, quota.Hosts: 1, quota.Reserved: 10, quota.Preemptibles: 10,
}

// tenant has a token of a project with the role member, and one with the role reader.
func tenant() party {
	return party{name: "tenant", budget: size{state: 4 << 20, log: 24 << 20, index: 20_000}, attacks: func(_ *testing.T, p *phase) []attack {
		p.root.allow(mallory, quotas)
		base := "http://" + p.root.node.Addresses().API
		m := &tenantCalls{
			phase:  p,
			member: p.caller(plain(), base, jsonHead(p.root.member(mallory, api.RoleMember))),
			reader: p.caller(plain(), base, jsonHead(p.root.member(mallory, api.RoleReader))),
			bare:   p.caller(plain(), base, jsonHead("")),
		}
		return []attack{
			{"boots of ten thousand", m.bootMany},
			{"boots with all metadata", m.bootMetadata},
			{"boots of many groups", m.bootGroups},
			{"server groups without end", m.makeGroups},
			{"volumes without end", m.makeVolumes},
			{"leases of everything", m.makeLeases},
			{"records of others", m.readOthers},
			{"lists of others", m.listOthers},
			{"calls of admins", m.callAdmins},
			{"headers of nodes", m.forgeHeaders},
			{"questions about hidden attributes", m.askHidden},
			{"plans of nobody", m.forgePlans},
			{"names that draw", m.nameBadly},
			{"bodies without a type", m.omitType},
			{"bodies that are none", m.sendGarbage},
			{"the digest of the zone", m.readDigest},
			{"tries of tokens", m.guessTokens},
			{"readers that do not read", m.readSlowly},
		}
	}}
}

// tenantCalls are the calls of the rogue tenant.
type tenantCalls struct {
	*phase
	member, reader, bare *caller
}

// nameMax is the longest name.
var nameMax = strings.Repeat("n", api.NameMaxBytes)

func (m *tenantCalls) bootMany(ctx context.Context, r *record) error {
	m.member.call(ctx, r, "POST", "/zones/boot", fmt.Sprintf(`{"server":{"name":%q,"flavorRef":"small","max_count":%d}}`, nameMax, api.CountMax))
	return nil // what it costs is held against the budget
}

func (m *tenantCalls) bootMetadata(ctx context.Context, r *record) error {
	var pairs []string
	for n := range api.MetadataMax {
		pairs = append(pairs, fmt.Sprintf(`"%03d%s":"%s"`, n, strings.Repeat("k", 252), strings.Repeat("v", 255)))
	}
	body := fmt.Sprintf(`{"server":{"name":"x","flavorRef":"small","max_count":20,"metadata":{%s}}}`, strings.Join(pairs, ","))
	_, b := m.member.call(ctx, r, "POST", "/zones/boot", body)
	if _, id, ok := strings.Cut(string(b), `"reservation_id":"`); ok {
		id, _, _ = strings.Cut(id, `"`)
		m.member.call(ctx, r, "DELETE", "/zones/boot/"+id, nil)
	}
	return nil
}

func (m *tenantCalls) bootGroups(ctx context.Context, r *record) error {
	var groups []string
	for n := range api.GroupsMax {
		groups = append(groups, fmt.Sprintf(`{"name":"g%d","flavorRef":"small","max_count":600}`, n))
	}
	m.member.call(ctx, r, "POST", "/zones/boot", fmt.Sprintf(`{"server":{"name":"x","groups":[%s]}}`, strings.Join(groups, ",")))
	return nil
}

func (m *tenantCalls) makeGroups(ctx context.Context, r *record) error {
	m.member.call(ctx, r, "POST", "/server-groups", fmt.Sprintf(`{"server_group":{"name":%q,"policy":"anti-affinity"}}`, name("g")))
	return nil
}

func (m *tenantCalls) makeVolumes(ctx context.Context, r *record) error {
	m.member.call(ctx, r, "POST", "/volumes", fmt.Sprintf(`{"volume":{"name":%q,"size":1,"return_reservation_id":true}}`, nameMax))
	return nil
}

func (m *tenantCalls) makeLeases(ctx context.Context, r *record) error {
	m.member.call(ctx, r, "POST", "/reservation/v1/leases", fmt.Sprintf(
		`{"name":%q,"start_date":"now","end_date":"2035-01-01 00:00","reservations":[{"resource_type":"virtual:instance","amount":%d,"vcpus":1,"memory_mb":64,"disk_gb":0}]}`,
		nameMax, api.CountMax))
	m.member.call(ctx, r, "POST", "/reservation/v1/leases",
		`{"name":"h","start_date":"now","end_date":"2035-01-01 00:00","reservations":[{"resource_type":"physical:host","min":1,"max":100}]}`)
	return nil
}

// readOthers compares what there is with what there is not: a tenant may not tell them apart.
func (m *tenantCalls) readOthers(ctx context.Context, r *record) error {
	for _, q := range []struct{ method, path, body string }{
		{"GET", "/servers/%s", ""},
		{"DELETE", "/servers/%s", ""},
		{"GET", "/volumes/%s", ""},
		{"DELETE", "/volumes/%s", ""},
		{"POST", "/volumes/%s/detach", ""},
		{"GET", "/explain/%s", ""},
	} {
		ours, none := m.standing.instances[0], api.NewUUID()
		had, got := m.reader.call(ctx, r, q.method, fmt.Sprintf(q.path, ours), q.body)
		wanted, nothing := m.reader.call(ctx, r, q.method, fmt.Sprintf(q.path, none), q.body)
		if had != 0 && wanted != 0 && (had != wanted || len(got) != len(nothing)) {
			return fmt.Errorf("%s %s of others: %d %s, of nobody: %d %s", q.method, q.path, had, got, wanted, nothing)
		}
		had, got = m.member.call(ctx, r, q.method, fmt.Sprintf(q.path, ours), q.body)
		if !refused(had) {
			return fmt.Errorf("%s %s of others: %d %s", q.method, q.path, had, got)
		}
	}
	asking := m.member.muted() // answers repeat the name
	for _, method := range []string{"GET", "DELETE"} {
		if status, b := asking.call(ctx, r, method, "/zones/boot/"+string(m.standing.reservation), nil); !refused(status) {
			return fmt.Errorf("%s of a boot of others: %d %s", method, status, b)
		}
	}
	return nil
}

func (m *tenantCalls) listOthers(ctx context.Context, r *record) error {
	for _, path := range []string{
		"/servers/detail", "/servers/detail?all_projects=true", "/servers?project_id=" + honest, "/zones/boot?project_id=" + honest, "/zones/boot",
		"/volumes?all_projects=true", "/server-groups?project_id=" + honest, "/quotas", "/quotas/" + honest, "/reservation/v1/leases",
		"/placement/resource_providers", "/placement/usages?project_id=" + honest,
	} {
		_, b := m.member.call(ctx, r, "GET", path, nil)
		for _, i := range m.standing.instances {
			if bytes.Contains(b, []byte(i)) {
				return fmt.Errorf("GET %s lists instance %s of others", path, i)
			}
		}
	}
	return nil
}

// callAdmins makes every call of admins, in every dialect.
func (m *tenantCalls) callAdmins(ctx context.Context, r *record) error {
	for _, route := range rest.Routes() {
		if route.Role != api.RoleAdmin || route.Stream {
			continue
		}
		path := strings.ReplaceAll(route.Path, "{id}", "west")
		if status, b := m.member.call(ctx, r, route.Method, path, "{}"); status != 0 && status != http.StatusForbidden && status != http.StatusTooManyRequests {
			return fmt.Errorf("%s: %d %s", route.Name(), status, b)
		}
	}
	for prefix, path := range map[string]string{"/placement": "/resource_providers", "/reservation": "/v1/os-hosts"} {
		if status, b := m.member.call(ctx, r, "POST", prefix+path, `{"name":"x"}`); !refused(status) {
			return fmt.Errorf("POST %s%s: %d %s", prefix, path, status, b)
		}
	}
	return nil
}

// forgeHeaders says that a node has passed the call on.
func (m *tenantCalls) forgeHeaders(ctx context.Context, r *record) error {
	v := m.root.node.Store().View()
	link, _ := v.LinkByZone(m.west.node.Store().View().Zone)
	forged := *m.member
	forged.head = jsonHead("")
	for k, v := range map[string]string{
		"Berth-Door": "gateway", "Berth-Peer": string(link.Zone) + "/x", "X-Forwarded-For": "127.0.0.1", "Connection": "Berth-Door",
	} {
		forged.head[k] = v
	}
	for _, path := range []string{"/zones/changes?after=0", "/hosts", "/operator/tokens"} {
		if status, b := forged.call(ctx, r, "GET", path, nil); !refused(status) {
			return fmt.Errorf("GET %s with headers of a node: %d %s", path, status, b)
		}
	}
	return nil
}

// askHidden asks for hosts of a child by an attribute that is not public. A right guess and a wrong
// one must get the same answer.
func (m *tenantCalls) askHidden(ctx context.Context, r *record) error {
	var slots [2]int
	for i, guess := range []string{secret, secret + "x"} {
		status, b := m.member.call(ctx, r, "POST", "/zones/select", fmt.Sprintf(
			`{"server":{"name":"x","flavorRef":"small","max_count":8,"zones":{"allowed":["west"]},"scheduler_hints":{"query":["=","$serial",%q]}}}`, guess))
		if status == 0 {
			return nil
		}
		if status == http.StatusOK {
			slots[i] = bytes.Count(b, []byte(`"weight`))
		}
		r.note(fmt.Sprintf("guess %d of %d bytes", i, len(b)/100*100))
	}
	return unless(slots[0] == slots[1], "a right guess offers %d slots, a wrong one %d", slots[0], slots[1])
}

// forgePlans boots by plans that were not made for it.
func (m *tenantCalls) forgePlans(ctx context.Context, r *record) error {
	for _, blob := range []string{"", "AAAA", strings.Repeat("A", 4096)} {
		status, b := m.member.call(ctx, r, "POST", "/servers", fmt.Sprintf(`{"server":{"name":"x","flavorRef":"small","max_count":1,"blob":%q}}`, blob))
		if blob != "" && !refused(status) {
			return fmt.Errorf("a boot by a forged plan: %d %s", status, b)
		}
		if _, id, ok := strings.Cut(string(b), `"reservation_id":"`); ok {
			id, _, _ = strings.Cut(id, `"`)
			m.member.call(ctx, r, "DELETE", "/zones/boot/"+id, nil)
		}
	}
	return nil
}

func (m *tenantCalls) nameBadly(ctx context.Context, r *record) error {
	for _, bad := range []string{`a\u001b]0;pwn\u0007`, `a\u0000b`, `a\u202eb`, `\u2066a`, "a\\nb"} {
		status, b := m.member.call(ctx, r, "POST", "/zones/boot", `{"server":{"name":"`+bad+`","flavorRef":"small"}}`)
		if !refused(status) {
			return fmt.Errorf("a boot of the name %s: %d %s", bad, status, b)
		}
	}
	return nil
}

func (m *tenantCalls) omitType(ctx context.Context, r *record) error {
	bare := *m.member
	bare.head = map[string]string{"Authorization": m.member.head["Authorization"], "Content-Type": "text/plain"}
	status, b := bare.call(ctx, r, "POST", "/server-groups", fmt.Sprintf(`{"server_group":{"name":%q,"policy":"anti-affinity"}}`, name("g")))
	return unless(refused(status), "a body of another type: %d %s", status, b)
}

// garbage are bodies that no call takes.
func garbage() []string {
	return []string{
		strings.Repeat("[", 1<<16), strings.Repeat(`{"a":`, 1<<14), `{"server":{"name":"x","name":"y"}}`, `{"server":null}`, "\xff\xfe\x00",
		`{"server":{"name":"x","flavorRef":"small","max_count":1e99}}`, `{"server":{"name":"x","flavorRef":"small","max_count":-1}}`,
		`{"server":{"x":"` + strings.Repeat("x", api.BodyMaxBytes) + `"}}`, `[` + strings.Repeat("0,", 1<<18) + `0]`,
	}
}

func (m *tenantCalls) sendGarbage(ctx context.Context, r *record) error {
	for _, body := range garbage() {
		for _, path := range []string{"/zones/boot", "/zones/select", "/reservation/v1/leases"} {
			if status, b := m.member.call(ctx, r, "POST", path, body); !refused(status) {
				return fmt.Errorf("POST %s of %.40q: %d %s", path, body, status, b)
			}
		}
	}
	return nil
}

func (m *tenantCalls) readDigest(ctx context.Context, r *record) error {
	for _, path := range []string{"/zones/info", "/zones/detail"} {
		_, b := m.reader.call(ctx, r, "GET", path, nil)
		if bytes.Contains(b, []byte(`"sketches"`)) || bytes.Contains(b, []byte(`"digest"`)) {
			return fmt.Errorf("GET %s tells a reader the digest: %s", path, b)
		}
	}
	return nil
}

func (m *tenantCalls) guessTokens(ctx context.Context, r *record) error {
	for _, token := range []string{"", "x", "berth_none", "berth_0000000000000000_" + strings.Repeat("0", 43), strings.Repeat("t", 8<<10)} {
		guess := *m.bare
		guess.head = jsonHead(token)
		if status, b := guess.call(ctx, r, "GET", "/servers", nil); !refused(status) {
			return fmt.Errorf("token %.20q: %d %s", token, status, b)
		}
	}
	return nil
}

// slowReaders are the connections of one try that ask and do not read.
const slowReaders = 20

// readSlowly asks for lists over connections of which nothing is read, and leaves them after a
// moment.
func (m *tenantCalls) readSlowly(ctx context.Context, r *record) error {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close() // it was of no use
		}
	}()
	for range slowReaders {
		c, err := from(rogueAddr)(ctx, m.root.node.Addresses().API)
		if err != nil {
			r.note("not connected")
			return nil
		}
		open = append(open, c)
		_ = c.SetDeadline(time.Now().Add(tryTimeout)) // it is open
		_, err = io.WriteString(c, "GET /servers/detail?limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: "+m.reader.head["Authorization"]+"\r\n\r\n")
		r.note(fmt.Sprint("asked: ", err == nil))
	}
	return nil
}
