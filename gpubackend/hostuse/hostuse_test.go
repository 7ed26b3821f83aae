// SPDX-License-Identifier: Apache-2.0

package hostuse

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// TestOfOneself: what a process writes to counts, as private or shared, whether it is dumpable or
// not, since the file was opened before.
func TestOfOneself(t *testing.T) {
	const size = 64 << 20
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, flags := range []int{unix.MAP_PRIVATE, unix.MAP_SHARED} {
		before, err := p.Read()
		if err != nil {
			t.Fatal(err)
		}
		b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_ANONYMOUS)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < size; i += 4096 {
			b[i] = 1
		}
		now, err := p.Read()
		if err != nil {
			t.Fatal(err)
		}
		private, shared := int64(now.Private-before.Private), int64(now.Shared-before.Shared)
		if flags == unix.MAP_SHARED {
			private, shared = shared, private
		}
		// The runtime may give memory back meanwhile, and the kernel counts in lots.
		if private < size*3/4 || shared > size/4 {
			t.Errorf("flags %#x: %d bytes more, and %d of the other kind", flags, private, shared)
		}
		if err := unix.Munmap(b); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTables: what the kernel has for a process counts, too: tables of pages that were only read,
// of which each stands for no memory of the process's.
func TestTables(t *testing.T) {
	const (
		many  = 4096
		apart = 2 << 20 // for each a table of its own
	)
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	before, err := p.Read()
	if err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(-1, 0, many*apart, unix.PROT_READ,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Madvise(b, unix.MADV_NOHUGEPAGE); err != nil {
		t.Fatal(err)
	}
	sum := byte(0)
	for i := 0; i < len(b); i += apart {
		sum += b[i]
	}
	now, err := p.Read()
	if err != nil {
		t.Fatal(err)
	}
	if more := int64(now.Private - before.Private); more < many*4096*3/4 || sum != 0 {
		t.Errorf("%d bytes more", more)
	}
	if err := unix.Munmap(b); err != nil {
		t.Fatal(err)
	}
}

// TestEnded: nothing is known of a process that has ended, whoever has its number now.
func TestEnded(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := Open(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if b, err := p.Read(); err != nil || b.Private == 0 {
		t.Errorf("while it runs: %+v, %v", b, err)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if b, err := p.Read(); err == nil {
		t.Errorf("when it has ended: %+v", b)
	}
	if _, err := Of(c.Process.Pid); err == nil {
		t.Error("one that isn't there can be watched")
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Bytes{
		"Name:\tRssAnon:\nRssAnon:\t     100 kB\nRssFile:\t 7 kB\nRssShmem:\t 3 kB\n" +
			"VmPTE:\t 5 kB\nVmSwap:\t 20 kB\n": {Private: 125 << 10, Shared: 3 << 10},
		"RssAnon:\t0 kB\nRssShmem:\t0 kB\nVmPTE:\t1 kB\nVmSwap:\t0 kB\n" +
			"HugetlbPages:\t2048 kB\nThreads:\t3\n": {Private: 1<<10 + 2<<20 + 3*thread},
		"Name:\tx\nState:\tZ (zombie)\nThreads:\t1\n":              {},
		"RssAnon:\t100 kB\nRssShmem:\t1 kB\nVmPTE:\t1 kB\n":        {},
		"RssAnon:\tmany\nRssShmem:\t1\nVmPTE:\t1\nVmSwap:\t1\n":    {},
		"RssAnon:\t-1 kB\nRssShmem:\t1\nVmPTE:\t1\nVmSwap:\t1\n":   {},
		"RssAnon:\t1 kB\nRssShmem:\t1 kB\nVmSwap:\t1 kB\nThreads:": {},
		"": {},
	} {
		if b, err := parse([]byte(text)); b != want || (err == nil) != (want != Bytes{}) {
			t.Errorf("%q: %+v, %v, want %+v", text, b, err, want)
		}
	}
}
