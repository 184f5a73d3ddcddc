package native

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/internal/golden"
)

// random matches what is new in every answer.
var random = map[string]*regexp.Regexp{
	"<uuid>":        regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`),
	"<reservation>": regexp.MustCompile(`\br-[0-9a-f]{12}\b`),
	`"<sealed>"`:    regexp.MustCompile(`"[A-Za-z0-9+/=]{200,}"`),
}

// pretty returns an answer as people read it, without what is random.
func pretty(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, json.Indent(&out, b, "", "  "))
	text := out.Bytes()
	for name, re := range random {
		text = re.ReplaceAll(text, []byte(name))
	}
	return append(bytes.TrimSpace(text), '\n')
}

func TestGoldenAnswers(t *testing.T) {
	for name, c := range map[string]call{
		"root":               {method: "GET", target: "/"},
		"join":               {method: "POST", target: "/operator/join", body: `{"token":"t","csr":"AA=="}`},
		"select":             {method: "POST", target: "/zones/select", token: member, body: order(`"max_count":2`, `"reservation_id":"r-mine"`)},
		"boot-accepted":      {method: "POST", target: "/zones/boot", token: member, body: order(`"reservation_id":"r-mine"`)},
		"boot":               {method: "GET", target: "/zones/boot/r-web", token: reader},
		"boot-far":           {method: "GET", target: "/zones/boot/r-far", token: reader},
		"boot-releasing":     {method: "DELETE", target: "/zones/boot/r-web", token: member},
		"boots":              {method: "GET", target: "/zones/boot?limit=1", token: reader},
		"server":             {method: "GET", target: "/servers/id-web", token: reader},
		"server-admin":       {method: "GET", target: "/servers/id-web", token: admin},
		"servers":            {method: "GET", target: "/servers?limit=1", token: reader},
		"servers-detail":     {method: "GET", target: "/servers/detail", token: reader},
		"flavor-created":     {method: "POST", target: "/flavors", token: admin, body: `{"flavor":{"name":"f","vcpus":1,"ram":2,"disk":3,"resources":{"CUSTOM_A":4},"extra_specs":{"k":"v"},"command":["/bin/true"]}}`},
		"flavors":            {method: "GET", target: "/flavors", token: reader},
		"zones":              {method: "GET", target: "/zones", token: reader},
		"zones-admin":        {method: "GET", target: "/zones", token: admin},
		"zone":               {method: "GET", target: "/zones/west", token: admin},
		"zone-info":          {method: "GET", target: "/zones/info", token: reader},
		"zone-info-admin":    {method: "GET", target: "/zones/info", token: admin},
		"zone-token":         {method: "POST", target: "/zones", token: admin, body: `{"zone":{"name":"south"}}`},
		"zone-linked":        {method: "POST", target: "/zones/link", token: admin, body: `{"token":"t"}`},
		"zone-set":           {method: "PUT", target: "/zones/east", token: admin, body: `{"zone":{"availability_zone":"az2","tags":["gpu=cad","disk=fast"],"maintenance":true,"headroom":{"VCPU":5}}}`},
		"zone-share":         {method: "PUT", target: "/zones/up", token: admin, body: `{"zone":{"share_held":25,"share_committed":80}}`},
		"zone-maintenance":   {method: "POST", target: "/zones/east/plan-maintenance", token: admin, body: `{"maintenance":true}`},
		"bindings":           {method: "GET", target: "/bindings?limit=2", token: admin},
		"bindings-all":       {method: "GET", target: "/bindings?active=all&project_id=p1", token: admin},
		"binding":            {method: "GET", target: "/bindings/binding-0", token: admin},
		"binding-set":        {method: "POST", target: "/bindings", token: admin, body: `{"binding":{"project_id":"p9","zone":"west","availability_zone":"az1","tags":["gpu=cad","disk=fast"]}}`},
		"binding-moved":      {method: "POST", target: "/bindings/binding-1/move", token: admin, body: `{"zone":"west"}`},
		"host":               {method: "GET", target: "/hosts/host-1", token: admin},
		"hosts":              {method: "GET", target: "/hosts?limit=2", token: admin},
		"host-plan-drain":    {method: "POST", target: "/hosts/plan-drain", token: admin, body: `{"hosts":["host-1"]}`},
		"host-draining":      {method: "POST", target: "/hosts/host-1/drain", token: admin, body: `{"policy":"move","reason":"new disk"}`},
		"host-set":           {method: "PUT", target: "/hosts/host-1", token: admin, body: `{"host":{"attributes":{"price":"3"},"maintenance":"new disk"}}`},
		"webhooks":           {method: "GET", target: "/webhooks", token: reader},
		"webhook":            {method: "POST", target: "/webhooks/pager/resume", token: member},
		"webhook-created":    {method: "POST", target: "/webhooks", token: member, body: `{"webhook":{"name":"b","url":"https://example.org/","secret":"a-secret-of-mine-0","kinds":["boot"]}}`},
		"quota":              {method: "PUT", target: "/quotas/p1", token: admin, body: `{"limits":{"instances.VCPU":4,"hosts":-1}}`},
		"quotas":             {method: "GET", target: "/quotas", token: admin},
		"explain":            {method: "GET", target: "/explain/r-web", token: reader},
		"server-groups":      {method: "GET", target: "/server-groups", token: reader},
		"server-group":       {method: "POST", target: "/server-groups", token: member, body: `{"server_group":{"name":"b","policy":"anti-affinity"}}`},
		"aggregates":         {method: "GET", target: "/aggregates", token: admin},
		"aggregate":          {method: "PUT", target: "/aggregates/rack1", token: admin, body: `{"aggregate":{"hosts":["host-2","host-1"]}}`},
		"capacity":           {method: "GET", target: "/capacity?at=2030-01-02T01:00:00%2B01:00", token: admin},
		"availability-zones": {method: "GET", target: "/availability-zones", token: reader},
		"scheduler":          {method: "PUT", target: "/operator/scheduler", token: admin, body: `{"scheduler":{"filters":[{"name":"host_state"}],"costs":[{"name":"attribute","weight":2,"options":{"attribute":"price"}}]}}`},
		"members":            {method: "GET", target: "/operator/members", token: admin},
		"tokens":             {method: "GET", target: "/operator/tokens", token: admin},
		"token-created":      {method: "POST", target: "/operator/tokens", token: admin, body: `{"user_id":"u","project_id":"p","roles":["reader"]}`},
		"join-token-created": {method: "POST", target: "/operator/join-tokens", token: admin, body: `{"kind":"agent","name":"a"}`},
		"config":             {method: "PUT", target: "/operator/config", token: admin, body: `{"config":{"default_availability_zone":"az9","plan_ttl":"1m","host_grace":"20s","tags":["ssd"],"leases":{"max_duration":"2h","before_end":"0s"},"preemptibles":{"grace":"0s","ways":["project"],"projects":["*","!p1"],"closed_to_parents":true},"bindings":{"mode":"strict","weighers":[{"name":"price","multiplier":-2}],"headroom":{"VCPU":10},"lost_after":"2m","general_on_tagged":true}}}`},
		"config-default":     {method: "GET", target: "/operator/config", token: admin},
		"holds":              {method: "GET", target: "/operator/holds", token: admin},
		"refusal":            {method: "GET", target: "/servers/none", token: reader, head: map[string]string{"X-Request-Id": "req-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			golden.Check(t, "testdata/"+name+".json", pretty(t, newWorld(t).do(c).Body.Bytes()))
		})
	}
}
