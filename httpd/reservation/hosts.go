package reservation

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/openstack"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// Fields of every host.
const (
	fieldHostname = "hypervisor_hostname"
	fieldService  = "service_name"
	fieldType     = "hypervisor_type"
	fieldVersion  = "hypervisor_version"
	fieldCPU      = "cpu_info"
	fieldVCPUs    = "vcpus"
	fieldMemory   = "memory_mb"
	fieldDisk     = "local_gb"
	fieldAZ       = "availability_zone"
)

// standardFields are the fields of every host: none can be an extra capability.
var standardFields = []string{
	"id", "name", fieldHostname, fieldService, fieldType, fieldVersion, fieldCPU, fieldVCPUs, fieldMemory, fieldDisk, fieldAZ,
	"status", "reservable", "trust_id", "created_at", "updated_at",
}

// addressAttribute is an attribute that no condition can have, and no answer shows.
const addressAttribute = "ip"

// capabilityMax bounds the characters of the key of an extra capability.
const capabilityMax = 64

// numberBits is the size of the numbers of hosts: every JSON reader has them exactly.
const numberBits = 53

// numberOf returns the number by which callers name a host. It follows from the host's own
// id, and is the same on every node.
func numberOf(id api.HostID) string {
	sum := sha256.Sum256([]byte(id))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:])>>(64-numberBits), 10)
}

// managed reports whether leases may use a host.
func managed(h *state.Host) bool { return h.Pool != api.PoolOnDemand }

// allHosts returns the hosts of a zone by name.
func allHosts(v *state.State) []*state.Host {
	var out []*state.Host
	for marker := ""; ; {
		page := v.HostsPage(state.Page{Marker: marker, Limit: api.PageMax})
		out = append(out, page...)
		if len(page) < api.PageMax {
			return out
		}
		marker = page[len(page)-1].Name
	}
}

// managedHosts returns the hosts that leases may use, by name.
func managedHosts(v *state.State) []*state.Host {
	return slices.DeleteFunc(allHosts(v), func(h *state.Host) bool { return !managed(h) })
}

// findHost returns the host with a number; if several have it, the first that is managed.
func findHost(v *state.State, number string) (*state.Host, bool) {
	var found *state.Host
	for _, h := range v.AllHosts() {
		if numberOf(h.ID) == number && (found == nil || !managed(found)) {
			found = h
		}
	}
	if found == nil {
		return nil, false
	}
	return v.Host(found.ID)
}

// hostOf returns the managed host that the path of a call names.
func hostOf(v *state.State, r *http.Request) (*state.Host, error) {
	number := r.PathValue("id")
	if h, ok := findHost(v, number); ok && managed(h) {
		return h, nil
	}
	return nil, notFound("Object not found: there is no host %s", openstack.Show(number))
}

// capabilitiesOf returns the extra capabilities of a host: its attributes, those of
// operators over those of its agent.
func capabilitiesOf(h *state.Host) map[string]string {
	out := maps.Clone(h.Attributes)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, h.Overrides)
	maps.DeleteFunc(out, func(name, _ string) bool { return name == addressAttribute || slices.Contains(standardFields, name) })
	return out
}

// attributeOf returns one attribute of a host, "" for none.
func attributeOf(h *state.Host, name string) string {
	if text, ok := h.Overrides[name]; ok {
		return text
	}
	return h.Attributes[name]
}

// showHost returns a host as answers have it. Its amounts are those that conditions compare.
func showHost(v *state.State, h *state.Host) rest.LeaseHost {
	out := rest.LeaseHost{Capabilities: capabilitiesOf(h), LeaseHostFields: rest.LeaseHostFields{
		ID: numberOf(h.ID), Name: h.Name, Service: h.Name, Type: h.Driver, CPU: attributeOf(h, fieldCPU), AZ: h.AZ,
		Reservable: h.State == api.HostUp && h.Enabled && h.Maintenance == "",
		Created:    rest.RecordTime(h.Created), Updated: rest.RecordTime(h.Updated),
	}}
	if row, known := v.Hosts().Row(h.ID); known {
		out.VCPUs = v.Hosts().Capacity(row, api.VCPU)
		out.Memory = v.Hosts().Capacity(row, api.MemoryMB)
		out.Disk = v.Hosts().Capacity(row, api.DiskGB)
	}
	out.Version, _ = strconv.ParseInt(attributeOf(h, fieldVersion), 10, 64) // 0 for one that is no number
	if text := attributeOf(h, fieldType); text != "" {
		out.Type = text
	}
	return out
}

// sendHost answers with a host as it is now.
func (d *dialect) sendHost(w http.ResponseWriter, status int, id api.HostID) error {
	v := d.View(w)
	h, ok := v.Host(id)
	if !ok { // it was deleted meanwhile
		return notFound("Object not found: there is no such host any more")
	}
	return openstack.Answer(w, status, map[string]rest.LeaseHost{"host": showHost(v, h)})
}

// listHosts is GET /os-hosts.
func (d *dialect) listHosts(w http.ResponseWriter, _ *http.Request) error {
	v := d.View(w)
	out := []rest.LeaseHost{}
	for _, h := range managedHosts(v) {
		out = append(out, showHost(v, h))
	}
	return openstack.Answer(w, http.StatusOK, map[string][]rest.LeaseHost{"hosts": out})
}

// showHost is GET /os-hosts/{id}.
func (d *dialect) showHost(w http.ResponseWriter, r *http.Request) error {
	h, err := hostOf(d.View(w), r)
	if err != nil {
		return err
	}
	return d.sendHost(w, http.StatusOK, h.ID)
}

// readCapabilities reads extra capabilities. An empty value removes one, which is what null
// asks for.
func (f *fields) readCapabilities() map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(f.left)) {
		v, _ := f.take(name)
		if n := utf8.RuneCountInString(name); n > capabilityMax || len(name) > api.ExtraSpecMaxBytes {
			f.refuse(invalidError("Extra capability key too long: %s has %d characters, and at most %d are allowed", openstack.Show(name), n, capabilityMax))
		} else if name == "" || name == addressAttribute || slices.Contains(standardFields, name) {
			f.refuse(invalidError("%s cannot be an extra capability: it is a field of every host", openstack.Show(name)))
		}
		switch v := v.(type) {
		case nil:
			out[name] = ""
			continue
		case string:
			out[name] = v
		case json.Number:
			out[name] = v.String()
		case bool:
			out[name] = strconv.FormatBool(v)
		default:
			f.malformed(name, v, "a text, or null to remove it")
		}
		if text := out[name]; text == "" || len(text) > api.ExtraSpecMaxBytes {
			f.malformed(name, v, "a text of 1 to "+strconv.Itoa(api.ExtraSpecMaxBytes)+" bytes, or null to remove it")
		}
	}
	return out
}

// readNewHost reads the body of POST /os-hosts: the name or the id of a host, and its extra
// capabilities.
func readNewHost(body map[string]any) (ref string, capabilities map[string]string, err error) {
	f := newFields("", body)
	name, named := f.text("name", api.ProviderNameMax)
	id, given := f.take("id")
	switch v := id.(type) {
	case nil:
	case string:
		ref = v
	case json.Number:
		ref = v.String()
	default:
		f.malformed("id", v, "the id of a host")
	}
	switch {
	case named && given && id != nil:
		f.refuse(invalidError("Give name or id, and not both"))
	case named:
		ref = name
	}
	if ref == "" {
		f.refuse(invalidError("Missing parameter name"))
	}
	capabilities = f.readCapabilities()
	return ref, capabilities, f.done()
}

// createHost is POST /os-hosts: leases may use the host from now on, and nothing else may.
func (d *dialect) createHost(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadFields(r)
	if err != nil {
		return err
	}
	ref, capabilities, err := readNewHost(body)
	if err != nil {
		return err
	}
	v := d.Zone.View()
	h, err := intake.Host(v, ref)
	if numbered, ok := findHost(v, ref); ok && err != nil {
		h, err = numbered, nil
	}
	if err != nil {
		return notFound("Compute host %s not found", openstack.Show(ref))
	}
	if other, ok := findHost(v, numberOf(h.ID)); ok && other.ID != h.ID && managed(other) {
		return conflictError("The host %s has the same id as %s: %s", h.Name, other.Name, numberOf(h.ID))
	}
	if err = intake.ManageHost(r.Context(), d.Zone, h.ID, capabilities); err != nil {
		return err
	}
	d.Locate(w, r, root+"/os-hosts/"+numberOf(h.ID))
	return d.sendHost(w, http.StatusCreated, h.ID)
}

// updateHost is PUT /os-hosts/{id}: all its capabilities are set, or none.
func (d *dialect) updateHost(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadFields(r)
	if err != nil {
		return err
	}
	v := d.Zone.View()
	h, err := hostOf(v, r)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return invalidError("No information to update: give at least one extra capability")
	}
	f := newFields("", body)
	capabilities := f.readCapabilities()
	if err = f.done(); err != nil {
		return err
	}
	if err = d.checkUnused(v, h, capabilities); err != nil {
		return err
	}
	if err = intake.SetCapabilities(r.Context(), d.Zone, h.ID, capabilities); err != nil {
		return err
	}
	return d.sendHost(w, http.StatusOK, h.ID)
}

// deleteHost is DELETE /os-hosts/{id}: boots may use the host again, and leases may not.
func (d *dialect) deleteHost(w http.ResponseWriter, r *http.Request) error {
	v := d.Zone.View()
	h, err := hostOf(v, r)
	if err != nil {
		return err
	}
	if len(d.book.Slots(v, h.ID)) > 0 {
		return conflictError("The host %s has reservations, now or later", h.Name)
	}
	if err = intake.UnmanageHost(r.Context(), d.Zone, h.ID); err != nil {
		return err
	}
	return answerEmpty(w)
}
