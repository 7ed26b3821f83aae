// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strconv"
	"strings"
)

// text is text in Prometheus's format.
type text struct {
	strings.Builder
	name string // of the figure whose lines follow
}

// label is a label of a series.
type label struct{ name, value string }

// begin begins a figure.
func (t *text) begin(name, help, kind string) {
	t.name = name
	fmt.Fprintf(t, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind)
}

// escape escapes a label's value.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// line writes one value.
func (t *text) line(value float64, labels ...label) {
	t.WriteString(t.name)
	separator := "{"
	for _, l := range labels {
		t.WriteString(separator + l.name + `="` + escape.Replace(l.value) + `"`)
		separator = ","
	}
	t.WriteString("} " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}
