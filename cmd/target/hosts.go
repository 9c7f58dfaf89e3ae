package main

import (
	"fmt"
	"net/netip"
	"strings"
)

// maxHosts is as many as there may be replicas.
const maxHosts = 65535

// hosts reads addresses, one for each replica: 127.0.0.2-127.0.0.9, or a comma
// list of addresses and ranges.
func hosts(text string) (list []netip.Addr, err error) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := netip.ParseAddr(from)
		if err != nil {
			return nil, fmt.Errorf("%q is not an IP address", from)
		}
		last := first
		if isRange {
			if last, err = netip.ParseAddr(to); err != nil {
				return nil, fmt.Errorf("%q is not an IP address", to)
			}
		}
		if first.BitLen() != last.BitLen() || last.Less(first) {
			return nil, fmt.Errorf("%q does not go upwards, want a range such as 127.0.0.2-127.0.0.9", part)
		}
		for a := first; ; a = a.Next() {
			if len(list) == maxHosts {
				return nil, fmt.Errorf("more than %d addresses", maxHosts)
			}
			list = append(list, a)
			if a == last {
				break
			}
		}
	}
	return list, nil
}
