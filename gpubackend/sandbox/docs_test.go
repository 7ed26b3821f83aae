// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

//go:generate go test -run TestDocs -update

const docs = "../../docs/system-calls.md"

var update = flag.Bool("update", false, "write "+docs+" anew")

// page is the list of system calls for readers.
func page() string {
	var b strings.Builder
	b.WriteString(`# System calls of workers, movers and device processes

What the processes of a VM may ask the host's kernel for on the software GPU, once they serve a
guest (gpubackend/sandbox, from whose list this page is made). Any other call ends the process,
with the signal SIGSYS. With NVIDIA's driver there is no filter yet.

| call | worker | mover | device process | what for |
|---|---|---|---|---|
`)
	counts := map[Role]int{}
	for _, c := range calls {
		fmt.Fprintf(&b, "| %s |", c.name)
		for _, role := range []Role{SoftWorker, SoftMover, SoftDevice} {
			switch {
			case c.roles&role == 0:
				b.WriteString(" |")
			case c.answer != 0:
				fmt.Fprintf(&b, " %s |", unix.ErrnoName(c.answer))
			default:
				b.WriteString(" yes |")
				counts[role]++
			}
		}
		fmt.Fprintf(&b, " %s |\n", c.why)
	}
	fmt.Fprintf(&b, "\nA worker may make %d calls, a mover %d, a device process %d.\n",
		counts[SoftWorker], counts[SoftMover], counts[SoftDevice])
	return b.String()
}

// TestDocs: the page says what the list does.
func TestDocs(t *testing.T) {
	want := page()
	if *update {
		if err := os.WriteFile(docs, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s isn't current: run make generate", docs)
	}
}
