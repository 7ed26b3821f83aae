// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"io"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// TestUnneeded: a mover whose device process goes before it is ready says so. If something else is
// wrong as well, it says that.
func TestUnneeded(t *testing.T) {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	no := errors.New("no")
	for name, c := range map[string]struct {
		starts   bool  // the device process does start it
		confined error // what is wrong
		unneeded bool
	}{
		"at once":              {unneeded: true},
		"before it is ready":   {starts: true, unneeded: true},
		"it can't be confined": {starts: true, confined: no},
	} {
		mine, its, err := handover.Pair()
		if err != nil {
			t.Fatal(err)
		}
		control, err := handover.NewConn(its)
		if err != nil {
			t.Fatal(err)
		}
		if c.starts {
			m := &handover.Message{Kind: handover.KindStart, GPU: "soft"}
			if err := mine.Send(m, nil); err != nil {
				t.Fatal(err)
			}
		} else {
			mine.Close()
		}
		err = Run(Config{Control: control, Log: logrus.NewEntry(quiet),
			Confine: func(string) error {
				mine.Close()
				return c.confined
			}})
		if errors.Is(err, ErrUnneeded) != c.unneeded || errors.Is(err, no) == c.unneeded {
			t.Errorf("%s: %v", name, err)
		}
		control.Close()
	}
}
