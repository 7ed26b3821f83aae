// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strings"
	"testing"
)

func TestOutputJoinsAndKeepsOrder(t *testing.T) {
	o := NewBuffer(nil)
	out, err := o.Writer(1), o.Writer(2)
	fmt.Fprint(out, "a")
	fmt.Fprint(out, "b")
	fmt.Fprint(err, "c")
	fmt.Fprint(out, "d")
	var got []string
	for _, m := range o.Output() {
		got = append(got, fmt.Sprint(m.FD, string(m.Text)))
	}
	if s := strings.Join(got, " "); s != "1ab 2c 1d" {
		t.Errorf("got %q", s)
	}
	if o.Output() != nil {
		t.Error("taken twice")
	}
}

func TestOutputDropsTheOldest(t *testing.T) {
	o := NewBuffer(nil)
	o.Resize(10)
	for i := range 20 {
		fmt.Fprintf(o.Writer(1), "%02d,", i)
	}
	if got := o.Output(); len(got) != 1 || string(got[0].Text) != "17,18,19," {
		t.Errorf("got %v", got)
	}
}
