// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"os/exec"
	"testing"
	"time"
)

// TestHostileFrontEnds: front ends send one message each on a connection of their own, and go. The
// next one is served as if nothing had happened, and the device process keeps no descriptors. Then
// a front end breaks rules while its guest computes, which must go on.
func TestHostileFrontEnds(t *testing.T) {
	_, at := newDevice(t, func(*exec.Cmd) {})
	p, counts := Frontend(), map[verdict]int{}
	begin := time.Now()
	run := p.begin(t, at)
	for i, name := range p.cases() {
		v, err := run(i)
		if counts[v]++; v != pass {
			t.Errorf("%s: %s: %v", name, v, err)
		}
		if !at.alive() {
			break
		}
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
	t.Logf("%v in %v", counts, time.Since(begin))
}
