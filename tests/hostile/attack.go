// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"testing"
)

// attack is one case. Its class is the number in docs/bug-classes.md: 1 to 27 of rings and
// descriptors, 28 to 42 of the socket, 43 to 51 of the GPU.
type attack struct {
	name  string
	class int
	do    func(*guest, *channel) error
}

type verdict string

const (
	pass verdict = "PASS"
	// The attack has harmed something else, or its own check has failed.
	fail   verdict = "FAIL"
	wedged verdict = "WEDGED" // the attacked channel can't be used any more
)

// run carries out an attack, and checks that both channels can be used after it.
func (g *guest) run(a attack, value byte) (verdict, error) {
	c := g.channels[victim]
	if err := a.do(g, c); err != nil {
		return fail, err
	}
	if !g.alive() {
		return fail, errDied
	}
	if err := g.channels[witness].compute(value); err != nil {
		return fail, fmt.Errorf("another channel: %w", err)
	}
	if err := c.recover(value); err != nil {
		return wedged, err
	}
	return pass, nil
}

// Driver is the hostile guest: its kernel with the driver, and the library.
func Driver() *Program {
	list := attacks()
	return &Program{
		name: "driver",
		cases: func() (names []string) {
			for _, a := range list {
				names = append(names, a.name)
			}
			return names
		},
		begin: func(tb testing.TB, t *target) func(int) (verdict, error) {
			g := connect(tb, t)
			if err := g.begin(); err != nil {
				tb.Fatal(err)
			}
			return func(i int) (verdict, error) { return g.run(list[i], byte(i)) }
		},
		end: func() error { return nil },
	}
}
