package cli

import (
	"regexp"
	"strings"
)

// fieldFlags maps fields of bodies, which refusals begin with, to the flags that fill them.
var fieldFlags = map[string]string{
	"flavorRef":                          "--flavor",
	"flavor":                             "--flavor",
	"availability_zone":                  "--az",
	"zones.allowed":                      "--zone",
	"zones.excluded":                     "--exclude-zone",
	"zones.allowed_tags":                 "--zone-tag",
	"zones.excluded_tags":                "--exclude-zone-tag",
	"zones.max_skew":                     "--spread-zones",
	"zones.min_zones":                    "--min-zones",
	"zones.pack":                         "--pack",
	"scheduler_hints.build_near_host_ip": "--near",
	"scheduler_hints.cidr":               "--near",
	"scheduler_hints.query":              "--query",
	"scheduler_hints.same_host":          "--same-host",
	"scheduler_hints.different_host":     "--different-host",
	"scheduler_hints.force_hosts":        "--force-host",
	"scheduler_hints.ignore_hosts":       "--ignore-host",
	"scheduler_hints.group":              "--group",
	"scheduler_hints.reservation":        "--within",
	"reservation_id":                     "--reservation-id",
	"min_count":                          "--min",
	"max_count":                          "--count",
	"num_instances":                      "--count",
	"image_properties":                   "--image-property",
	"traits":                             "--trait",
	"weight_offset":                      "--weight-offset",
	"weight_scale":                       "--weight-scale",
	"share_held":                         "--share-held",
	"share_committed":                    "--share-committed",
	"query":                              "--query",
	"build_near_host_ip":                 "--near",
	"cidr":                               "--near",
}

// fieldFirst finds the field that a sentence begins with.
var fieldFirst = regexp.MustCompile(`^[a-zA-Z_]+(\.[a-z_]+)?`)

// callWords maps what a sentence says of calls to the commands that make them.
var callWords = strings.NewReplacer("; see GET /flavors", "; see: berth flavor list", ": send Authorization: Bearer berth_...", "")

// inFlags returns the sentence of a refusal in the words of the command line. Fields of a group, whose names a
// file with groups has too, stay as they are.
func inFlags(sentence string) string {
	field := fieldFirst.FindString(sentence)
	if flag := fieldFlags[field]; flag != "" && strings.IndexAny(sentence[len(field):]+" ", ": ") == 0 {
		sentence = flag + sentence[len(field):]
	}
	return callWords.Replace(sentence)
}
