package tricircle

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/openstack"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// affinityTag is the body of an affinity tag of a pod.
type affinityTag struct {
	ID    string     `json:"affinity_tag_id"`
	Key   string     `json:"key"`
	Value string     `json:"value"`
	Pod   api.LinkID `json:"pod_id"`
}

// tagOf returns the body of a tag of a child. Its id follows from both, and is the same on every node.
func tagOf(l *api.Link, tag string) affinityTag {
	key, value, _ := strings.Cut(tag, "=")
	sum := sha256.Sum256([]byte(string(l.ID) + "\x00" + tag))
	id := hex.EncodeToString(sum[:16])
	return affinityTag{ID: strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-"), Key: key, Value: value, Pod: l.ID}
}

// tagsOf returns the tags of all pods.
func tagsOf(v *state.State) []affinityTag {
	out := []affinityTag{}
	for _, l := range podsOf(v) {
		for _, t := range l.Terms.Tags {
			out = append(out, tagOf(l, t))
		}
	}
	return out
}

func (d *dialect) listTags(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, "pod_affinity_tag", tagsOf(d.View(w)))
}

// tagNamed returns the tag that the path of a call names.
func tagNamed(v *state.State, r *http.Request) (affinityTag, error) {
	id := r.PathValue("id")
	all := tagsOf(v)
	i := slices.IndexFunc(all, func(t affinityTag) bool { return t.ID == id })
	if i < 0 {
		return affinityTag{}, api.Errorf(api.CodeNotFound, "Pod affinity tag %s not found", openstack.Show(id))
	}
	return all[i], nil
}

func (d *dialect) showTag(w http.ResponseWriter, r *http.Request) error {
	t, err := tagNamed(d.View(w), r)
	if err != nil {
		return err
	}
	return answer(w, "pod_affinity_tag", t)
}

// createTag adds a tag to a pod.
func (d *dialect) createTag(w http.ResponseWriter, r *http.Request) error {
	f, err := readFields(r, "pod_affinity_tag", []string{"key", "value", "pod_id"}, nil)
	if err != nil {
		return err
	}
	for _, name := range []string{"key", "value", "pod_id"} {
		if f.text(name) == "" {
			return api.Errorf(api.CodeInvalid, "%s can not be empty", name)
		}
	}
	l, ok := findPod(d.View(w), f.text("pod_id"))
	if !ok {
		return api.Errorf(api.CodeNotFound, "Pod %s not found", openstack.Show(f.text("pod_id")))
	}
	tag := f.text("key") + "=" + f.text("value")
	if slices.Contains(l.Terms.Tags, tag) {
		return api.Errorf(api.CodeConflict, "Pod affinity tag already exists")
	}
	tags := append(slices.Clone(l.Terms.Tags), tag)
	if l, err = intake.ChangeLink(r.Context(), d.Zone, string(l.ID), rest.ZoneSpec{Tags: &tags}); err != nil {
		return err
	}
	return answer(w, "pod_affinity_tag", tagOf(l, tag))
}

// deleteTag removes a tag from its pod.
func (d *dialect) deleteTag(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	t, err := tagNamed(v, r)
	if err != nil {
		return err
	}
	l, _ := v.Link(t.Pod)
	tags := slices.DeleteFunc(slices.Clone(l.Terms.Tags), func(tag string) bool { return tag == t.Key+"="+t.Value })
	if _, err = intake.ChangeLink(r.Context(), d.Zone, string(l.ID), rest.ZoneSpec{Tags: &tags}); err != nil {
		return err
	}
	return answerEmpty(w)
}
