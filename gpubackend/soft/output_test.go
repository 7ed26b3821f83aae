// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"fmt"
	"strings"
	"testing"
)

func TestOutputJoinsAndKeepsOrder(t *testing.T) {
	var o output
	out, err := outputWriter{&o, 1}, outputWriter{&o, 2}
	fmt.Fprint(out, "a")
	fmt.Fprint(out, "b")
	fmt.Fprint(err, "c")
	fmt.Fprint(out, "d")
	var got []string
	for _, m := range o.take() {
		got = append(got, fmt.Sprint(m.FD, string(m.Text)))
	}
	if s := strings.Join(got, " "); s != "1 ab 2 c 1 d" && s != "1ab 2c 1d" {
		t.Errorf("got %q", s)
	}
	if o.take() != nil {
		t.Error("taken twice")
	}
}

func TestOutputDropsTheOldest(t *testing.T) {
	var o output
	o.resize(10)
	for i := range 20 {
		fmt.Fprintf(outputWriter{&o, 1}, "%02d,", i)
	}
	if got := o.take(); len(got) != 1 || string(got[0].Text) != "17,18,19," {
		t.Errorf("got %v", got)
	}
}
