// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// fillCheck is how a fill finds out at once whether its memory is allocated. If the fill is
// captured, the driver checks that only when it runs.
func (f function) fillCheck() string {
	if f.fill == "" {
		return ""
	}
	to, extent := f.filled()
	stream := f.params[len(f.params)-1].name
	return fmt.Sprintf("\tresult = fill_check(%s, %s, %s / 8);\n"+
		"\tif (result && !capture_of(%s))\n\t\treturn capture_refuse(%[4]s, result);\n",
		to, strings.Join(extent, ", "), f.fill, stream)
}

// filled is where a fill begins, and its width, height and pitch.
func (f function) filled() (to string, extent []string) {
	p := f.params
	if len(p) == 4 { // destination, value, count, stream
		return p[0].name, []string{p[2].name, "1", "0"}
	}
	return p[0].name, []string{p[3].name, p[4].name, p[1].name}
}

// fillWatched sends a request to fill memory, and reports it to watchers.
func (f function) fillWatched() string {
	p := f.params
	bytes, value := p[2].name+" * ", p[1].name
	if len(p) == 6 { // destination, pitch, value, width, height, stream
		bytes, value = p[3].name+" * "+p[4].name+" * ", p[2].name
	}
	return fmt.Sprintf("WATCH(fill_send(&r, %s), .kind = PARACUDA_FILL, .stream = %s,\n"+
		"\t\t     .bytes = %s(%s / 8), .value = %s, .to = fill_target(%[1]s))",
		p[0].name, p[len(p)-1].name, bytes, f.fill, value)
}
