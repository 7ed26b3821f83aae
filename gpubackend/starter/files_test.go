// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/memfd"
)

const mib = 1 << 20

// created is memory that a program makes.
func created(bytes uint64) memfd.Form { return memfd.Form{Kind: memfd.Created, Bytes: bytes} }

// madeFor is a file for the child, which the test closes.
func madeFor(t *testing.T, c *Client, pid int, f memfd.Form) *os.File {
	t.Helper()
	file, err := c.Make(pid, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// filesOf is how much memory the files of a child have, or of those that have ended.
func filesOf(t *testing.T, c *Client, pid int) uint64 {
	t.Helper()
	all, err := c.Weigh()
	if err != nil {
		t.Fatal(err)
	}
	return all[pid].Files
}

// fill writes to the start of a file.
func fill(t *testing.T, fd, bytes int) {
	t.Helper()
	if _, err := unix.Pwrite(fd, make([]byte, bytes), 0); err != nil {
		t.Fatal(err)
	}
}

// TestFilesAreWeighed: the memory of a child's files counts as long as somebody has them, by
// whatever: a descriptor, a mapping, or a message that nobody has read. Nobody maps them.
func TestFilesAreWeighed(t *testing.T) {
	client, _ := serve(t, Config{Start: execute})
	_, theirs := control(t)
	p, err := client.Start(Worker, theirs)
	if err != nil {
		t.Fatal(err)
	}
	file := madeFor(t, client, p.PID(), created(8*mib))
	if !memfd.Sealed(int(file.Fd()), 8*mib) || memfd.Sealed(int(file.Fd()), 8*mib+1) {
		t.Error("its size isn't for good")
	}
	if n := filesOf(t, client, p.PID()); n != 0 {
		t.Errorf("an empty file has %d bytes", n)
	}
	fill(t, int(file.Fd()), 3*mib)
	want := func(what string, bytes uint64) {
		t.Helper()
		if n := filesOf(t, client, p.PID()); n != bytes {
			t.Errorf("%s: %d bytes, want %d", what, n, bytes)
		}
	}
	want("it is open", 3*mib)
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	rights := unix.UnixRights(int(file.Fd()))
	if err := unix.Sendmsg(ends[0], []byte{1}, rights, nil, 0); err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, mib, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	want("it is in a message, and mapped", 3*mib)
	if err := unix.Munmap(mapped); err != nil {
		t.Fatal(err)
	}
	want("it is in a message", 3*mib)
	unix.Close(ends[0])
	unix.Close(ends[1])
	want("nobody has it", 0)
	other := madeFor(t, client, p.PID(), created(mib))
	fill(t, int(other.Fd()), mib)
	p.Kill()
	_ = p.Wait()
	want("its child has ended", 0)
	if n := filesOf(t, client, 0); n != mib {
		t.Errorf("others have %d bytes of a child that has ended, want %d", n, mib)
	}
	other.Close()
	if n := filesOf(t, client, 0); n != 0 {
		t.Errorf("nobody has %d bytes", n)
	}
}

// TestFilesForChildren: files are made for children only, of forms that workers have.
func TestFilesForChildren(t *testing.T) {
	client, over := serve(t, Config{Start: execute})
	_, theirs := control(t)
	p, err := client.Start(Worker, theirs)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		pid  int
		form memfd.Form
		want error
	}{
		"nobody":       {0, created(mib), errStranger},
		"this process": {os.Getpid(), created(mib), errStranger},
		"nothing":      {p.PID(), created(0), memfd.ErrForm},
		"too much":     {p.PID(), created(1 << 60), memfd.ErrForm},
		"no kind":      {p.PID(), memfd.Form{Kind: 99, Bytes: mib}, memfd.ErrForm},
		"a long event": {p.PID(), memfd.Form{Kind: memfd.Event, Bytes: mib}, memfd.ErrForm},
	} {
		if f, err := client.Make(c.pid, c.form); err == nil ||
			!strings.Contains(err.Error(), c.want.Error()) {
			t.Errorf("%s: %v, %v", what, f, err)
		}
	}
	client.knows = false
	if _, err := client.Make(p.PID(), created(mib)); !errors.Is(err, errCant) {
		t.Errorf("by an earlier version: %v", err)
	}
	p.Kill()
	_ = p.Wait()
	if _, err := client.ask(&message{kind: makes}, -1); !errors.Is(err, ErrGone) {
		t.Errorf("without a form: %v", err)
	}
	if err := <-over; !errors.Is(err, errMessage) {
		t.Errorf("the starter process has ended: %v", err)
	}
}

// TestFilesAreBounded: there are only so many, and those that nobody has don't count.
func TestFilesAreBounded(t *testing.T) {
	const most = 20
	w := watchedFiles{most: most}
	defer w.close()
	var held []int
	defer func() {
		for _, fd := range held {
			unix.Close(fd)
		}
	}()
	for range most {
		fd, err := w.make(1, created(mib))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, fd)
	}
	if fd, err := w.make(1, created(mib)); !errors.Is(err, errFiles) {
		t.Errorf("one more: %d, %v", fd, err)
	}
	unix.Close(held[0])
	var err error
	if held[0], err = w.make(1, created(mib)); err != nil {
		t.Errorf("instead of one that is gone: %v", err)
	}
	for range 10 * most { // one after the other, of which each is written
		unix.Close(held[1])
		if held[1], err = w.make(1, created(mib)); err != nil {
			t.Fatal(err)
		}
		fill(t, held[1], mib)
	}
	sum := uint64(0)
	for _, f := range w.all {
		var st unix.Stat_t
		if err := unix.Fstat(f.fd, &st); err != nil {
			t.Fatal(err)
		}
		sum += uint64(st.Blocks) * 512
	}
	if len(w.all) > most || sum > 2*mib {
		t.Errorf("%d files have %d bytes", len(w.all), sum)
	}
}
