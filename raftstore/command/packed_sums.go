package command

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"berth/api"
)

// A report that names the stay of each instance says twice where it is: the stay decides, and a sum
// of the host is enough to notice that the zone has begun anew from a backup in between. Such a
// host is read as hostMark and the sum in hexadecimal digits.
const (
	hostMark = "~"
	sumBytes = 4
	sumChars = 2 * sumBytes
)

// IsHost reports whether the host of a report that was read from an entry is id.
func IsHost(reported, id api.HostID) bool {
	if sum, ok := parseSum(reported); ok && sum == sumHost(id) {
		return true
	}
	return reported == id
}

// sumHost returns the FNV-1a hash of a host's id.
func sumHost(id api.HostID) uint32 {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return h
}

// parseSum returns the sum of a host that has nothing else.
func parseSum(id api.HostID) (uint32, bool) {
	digits, marked := strings.CutPrefix(string(id), hostMark)
	if !marked || len(digits) != sumChars || strings.ToLower(digits) != digits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, hexBase, 8*sumBytes)
	return uint32(n), err == nil
}

// packSums returns the sums of the hosts of reports, each once, and their numbers.
func packSums(items []api.InstanceReport) (sums, at []byte) {
	numbers := map[api.HostID]int{}
	at = packNumbers(len(items), func(i int) int {
		n, known := numbers[items[i].Host]
		if !known {
			sum, short := parseSum(items[i].Host)
			if !short {
				sum = sumHost(items[i].Host)
			}
			n = len(numbers)
			numbers[items[i].Host] = n
			sums = binary.BigEndian.AppendUint32(sums, sum)
		}
		return n
	})
	return sums, at
}

// unpackSums reads what packSums wrote.
func unpackSums(sums []byte) ([]api.HostID, error) {
	if len(sums)%sumBytes != 0 || len(sums) > packedMax*sumBytes {
		return nil, fmt.Errorf("%w: sums of %d bytes", errPacked, len(sums))
	}
	var all []byte // the texts share one piece of memory
	for b := sums; len(b) > 0; b = b[sumBytes:] {
		all = hex.AppendEncode(append(all, hostMark...), b[:sumBytes])
	}
	const chars = len(hostMark) + sumChars
	text, out := api.HostID(all), make([]api.HostID, len(sums)/sumBytes)
	for i := range out {
		out[i] = text[i*chars : (i+1)*chars]
	}
	return out, nil
}
