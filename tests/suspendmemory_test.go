// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// TestMemorySetOtherwise: a VM that is suspended to a file goes on whatever `memory` was set to
// meanwhile, if its program finds room in that. Otherwise the command says how much the program
// had and what to set, and the VM stays in the file. With that it goes on.
func TestMemorySetOtherwise(t *testing.T) {
	t.Parallel()
	needs := regexp.MustCompile(`the programs had \d+ bytes of the GPU's memory, and the VM may ` +
		`have 33554432: set (memory=\d+M) or more`)
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startPolicyRigOf(t, vm, filepath.Join(programs, "keeps"), "0")
		p.commands(t, 500) // all is allocated
		file := filepath.Join(t.TempDir(), "state")
		for range 2 {
			p.must(t, "suspend", "--to", file)
			p.set(t, "memory=32M")
			r := command(t, time.Minute, root, paracuda, "resume", "--from", file, p.socket)
			m := needs.FindStringSubmatch(r.stderr)
			if r.exit == 0 || m == nil {
				t.Fatalf("resumed with too little memory: exit code %d:%s", r.exit, tail(r.stderr))
			}
			if a := p.answer(t); !a.State.Saved || used(a) != 0 {
				t.Fatalf("%+v, %d bytes are used, want a VM in the file", a.State, used(a))
			}
			p.set(t, m[1])
			p.must(t, "resume", "--from", file)
			p.commands(t, 300)
			p.must(t, "suspend", "--to", file)
			p.set(t, "memory=1G")
			p.must(t, "resume", "--from", file)
			p.commands(t, 300)
		}
	})
}
