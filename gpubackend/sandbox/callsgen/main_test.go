// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// TestCurrent: the programs and the page are those of the lists.
func TestCurrent(t *testing.T) {
	made, err := outputs()
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range made {
		got, err := os.ReadFile(filepath.Join("..", file))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s isn't current: run make generate (%v)", file, err)
		}
	}
}

// TestListsAreShort: whoever adds a call takes it from somewhere else, or says here why not. In a
// VM with several GPUs the mover makes a context when memory of its GPU comes, as a worker does.
func TestListsAreShort(t *testing.T) {
	for role, most := range map[sandbox.Role]int{
		sandbox.SoftWorker: 45, sandbox.SoftMover: 45, sandbox.Device: 45,
		sandbox.CUDAWorker: 77, sandbox.CUDAMover: 72, sandbox.Arbiter: 50,
		sandbox.Keeper: 232, sandbox.StarterProcess: 217,
	} {
		seen := map[uintptr]bool{}
		for _, c := range all() {
			if c.roles&role == 0 || c.answer != 0 || c.asked {
				continue
			}
			if seen[c.number] || c.name == "" || c.why == "" {
				t.Errorf("%s (%d): twice, or without a name or a reason", c.name, c.number)
			}
			seen[c.number] = true
		}
		if len(seen) > most {
			t.Errorf("role %d may make %d calls, more than %d", role, len(seen), most)
		}
	}
}
