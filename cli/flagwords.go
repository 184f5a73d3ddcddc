package cli

import (
	"regexp"
	"strings"
)

// fieldFlags maps fields of bodies and queries, which refusals name, to the flags that fill them.
var fieldFlags = map[string]string{
	"flavorRef":           "--flavor",
	"flavor":              "--flavor",
	"availability_zone":   "--az",
	"zones.allowed":       "--zone",
	"zones.excluded":      "--exclude-zone",
	"zones.allowed_tags":  "--zone-tag",
	"zones.excluded_tags": "--exclude-zone-tag",
	"zones.max_skew":      "--spread-zones",
	"zones.min_zones":     "--min-zones",
	"zones.pack":          "--pack",
	"max_skew":            "--spread-zones",
	"min_zones":           "--min-zones",
	"build_near_host_ip":  "--near",
	"cidr":                "--near",
	"near":                "--near",
	"query":               "--query",
	"same_host":           "--same-host",
	"different_host":      "--different-host",
	"force_hosts":         "--force-host",
	"ignore_hosts":        "--ignore-host",
	"group":               "--group",
	"reservation":         "--within",
	"preemptible":         "--preemptible",
	"reservation_id":      "--reservation-id",
	"min_count":           "--min",
	"max_count":           "--count",
	"num_instances":       "--count",
	"imageRef":            "--image",
	"image_properties":    "--image-property",
	"traits":              "--trait",
	"metadata":            "--metadata",
	"lifetime":            "--lifetime",
	"timeout":             "--decide-within",
	"on_preempt":          "--on-preempt",
	"preempt":             "--preempt",

	"metadata.availability_zone": "--metadata availability_zone",
	"extra_specs":                "--property",
	"volume.size":                "--size",
	"volume.type":                "--type",
	"volume.storage_class":       "--storage-class",
	"volume.extra_specs":         "--spec",
	"max_per_host":               "--max-per-host",
	"policy":                     "--policy",
	"pool":                       "--pool",
	"attributes":                 "--attribute",
	"weight_offset":              "--weight-offset",
	"weight_scale":               "--weight-scale",
	"end_work":                   "--end-work",
	"share_held":                 "--share-held",
	"share_committed":            "--share-committed",
	"decision":                   "--decision",
	"kind":                       "--kind",
	"ttl":                        "--ttl",
	"host_prefix":                "--host-prefix",
	"hosts_max":                  "--hosts-max",
	"host_capacity":              "--host-capacity",
	"roles":                      "--role",
	"user_id":                    "--user",
	"service":                    "--service",
	"never_expires":              "--expires never",
	"project_id":                 "--project",
	"all_projects":               "--all-projects",
	"changes_since":              "--changed-since",
	"status":                     "--status",
	"state":                      "--state",
	"zone":                       "--zone",
	"host":                       "--host",
	"aggregate":                  "--aggregate",
	"at":                         "--at",
	"secret":                     "--secret-file",

	"plan_ttl":                  "--plan-ttl",
	"host_grace":                "--host-grace",
	"tags":                      "--tag",
	"tag":                       "--tag",
	"default_availability_zone": "--default-az",
	"webhook_networks":          "--webhook-network",
	"public_attributes":         "--public-attribute",
	"hides_layout":              "--hide-layout",
	"remove_dead_after":         "--remove-dead-after",
	"leases.max_duration":       "--" + flagLeaseLongest,
	"leases.extension_window":   "--" + flagLeaseExtension,
	"leases.exempt_projects":    "--" + flagLeaseExempt,
	"leases.max_lead":           "--" + flagLeaseLead,
	"leases.before_end":         "--" + flagLeaseBeforeEnd,
	"leases.cleaning_time":      "--" + flagLeaseCleaning,
	"leases.check.url":          "--" + flagCheckURL,
	"leases.check.token":        "--" + flagCheckToken,
	"leases.check.has_token":    "--" + flagCheckToken,
	"leases.check.timeout":      "--" + flagCheckTimeout,
	"leases.check.fail_open":    "--" + flagCheckOpen,

	"preemptibles.grace":             "--" + flagPreemptGrace,
	"preemptibles.ways":              "--" + flagPreemptWay,
	"preemptibles.projects":          "--" + preemptLists[0].flag,
	"preemptibles.allowed_projects":  "--" + preemptLists[1].flag,
	"preemptibles.firm_projects":     "--" + preemptLists[2].flag,
	"preemptibles.closed_to_parents": "--" + flagPreemptClosed,
	"bindings.mode":                  "--" + flagBindingMode,
	"bindings.weighers":              "--" + flagBindingWeigher,
	"bindings.headroom":              "--" + flagBindingHeadroom,
	"bindings.lost_after":            "--" + flagBindingLost,
	"bindings.usage_age":             "--" + flagBindingAge,
	"bindings.general_on_tagged":     "--" + flagBindingGeneral,
	"fanout.mode":                    "--" + flagFanout,
	"fanout.slack":                   "--" + flagFanoutSlack,
}

// callCommands maps calls that refusals name to the commands that make them. What stands for {} is put in its place.
var callCommands = []struct {
	call    *regexp.Regexp
	command string
}{
	{regexp.MustCompile(`\bGET /flavors\b`), "berth flavor list"},
	{regexp.MustCompile(`\bGET /server-groups\b`), "berth server-group list"},
	{regexp.MustCompile(`\bGET /reservation/v1/leases\b`), "berth lease list"},
	{regexp.MustCompile(`\bGET /zones/boot/([^\s;,]+)`), "berth reservation show $1"},
	{regexp.MustCompile(`\bPOST /zones/boot\b`), "berth boot"},
	{regexp.MustCompile(`\bPOST /servers\b`), "berth boot --apply"},
	{regexp.MustCompile(`\bPUT /zones/(\{id\}|[^\s;,]+)`), "berth zone set"},
	{regexp.MustCompile(`\bPOST /zones\b`), "berth zone link-token"},
}

var (
	// fieldFirst finds the field that a sentence begins with.
	fieldFirst = regexp.MustCompile(`^([a-zA-Z_]+(?:\.[a-z_]+)*)(:| must\b| may\b| needs?\b| is missing\b)`)
	// fieldInside finds words that can only be names of fields.
	fieldInside = regexp.MustCompile(`(^|[ (])([a-z]+(?:[_.][a-z]+)+)`)
	// quotedText finds what a caller wrote.
	quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// inFlags returns the sentence of a refusal in the words of the command line. What a caller wrote stays as it is, and so
// do fields of a group or rule, whose names a file with groups has too.
func inFlags(sentence string) string {
	ofFile := strings.HasPrefix(sentence, "groups[") || strings.HasPrefix(sentence, "rules[")
	if m := fieldFirst.FindStringSubmatch(sentence); m != nil && !ofFile {
		if flag := flagOf(m[1]); flag != "" {
			sentence = flag + sentence[len(m[1]):]
		}
	}
	var out strings.Builder
	from := 0
	for _, quoted := range append(quotedText.FindAllStringIndex(sentence, -1), []int{len(sentence), len(sentence)}) {
		out.WriteString(wordsInFlags(sentence[from:quoted[0]], ofFile))
		out.WriteString(sentence[quoted[0]:quoted[1]])
		from = quoted[1]
	}
	return out.String()
}

// flagOf returns the flag that fills a field, "" if there is none.
func flagOf(field string) string {
	return fieldFlags[strings.TrimPrefix(field, "scheduler_hints.")]
}

// wordsInFlags replaces names of fields and calls in a part of a sentence.
func wordsInFlags(text string, ofFile bool) string {
	if !ofFile {
		text = fieldInside.ReplaceAllStringFunc(text, func(found string) string {
			m := fieldInside.FindStringSubmatch(found)
			if flag := flagOf(m[2]); flag != "" {
				return m[1] + flag
			}
			return found
		})
	}
	for _, c := range callCommands {
		text = c.call.ReplaceAllString(text, c.command)
	}
	text = strings.ReplaceAll(text, "; see berth ", "; see: berth ")
	return strings.ReplaceAll(text, ": send Authorization: Bearer berth_...", "")
}
