// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReopen: a file in memory is opened once more, so that it can only be read, and no mapping of
// it be made writable. Nobody gains more rights than that.
func TestReopen(t *testing.T) {
	client, _ := serve(t, Config{})
	memory, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memory)
	if _, err := unix.Write(memory, make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	again, err := client.Reopen(memory)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	var was, is unix.Stat_t
	if err := errors.Join(unix.Fstat(memory, &was), unix.Fstat(int(again.Fd()), &is)); err != nil ||
		was.Ino != is.Ino || was.Dev != is.Dev {
		t.Errorf("another file: %v", err)
	}
	if _, err := again.Write([]byte("text")); err == nil {
		t.Error("it can be written to")
	}
	b, err := unix.Mmap(int(again.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(b) }()
	if err := unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE); !errors.Is(err, unix.EACCES) {
		t.Errorf("a mapping becomes writable: %v", err)
	}
	if err := unix.Madvise(b, unix.MADV_REMOVE); !errors.Is(err, unix.EACCES) {
		t.Errorf("it becomes a hole: %v", err)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	path := t.TempDir() + "/file"
	disk, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	name, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(name)
	toWrite, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", memory),
		unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(toWrite)
	refused := map[string]int{"one to be read": int(again.Fd()), "one to be written": toWrite,
		"a pipe": pipe[1], "a name": name}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(disk.Fd()), &fs); err == nil && fs.Type != unix.TMPFS_MAGIC {
		refused["a file on disk"] = int(disk.Fd())
	}
	for what, fd := range refused {
		if f, err := client.Reopen(fd); err == nil || !strings.Contains(err.Error(),
			errReopen.Error()) {
			t.Errorf("%s: %v, %v", what, f, err)
		}
	}
	client.knows = false
	if _, err := client.Reopen(memory); !errors.Is(err, errCant) {
		t.Errorf("one of an earlier version: %v", err)
	}
}

// TestShut: a file without a name loses all permissions. Others stay as they are.
func TestShut(t *testing.T) {
	client, over := serve(t, Config{})
	memory, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memory)
	named, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer named.Close()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	mode := func(fd int) uint32 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		return st.Mode & 0o777
	}
	for what, fd := range map[string]int{"a file with a name": int(named.Fd()), "a pipe": pipe[0]} {
		before := mode(fd)
		err := client.Shut(fd)
		if err == nil || !strings.Contains(err.Error(), errShut.Error()) || mode(fd) != before {
			t.Errorf("%s: permissions %#o, %v", what, mode(fd), err)
		}
	}
	if mode(memory) == 0 {
		t.Fatal("it has no permissions before: the test proves nothing")
	}
	for range 2 {
		if err := client.Shut(memory); err != nil || mode(memory) != 0 {
			t.Errorf("permissions %#o, %v", mode(memory), err)
		}
	}
	client.knows = false
	if err := client.Shut(memory); !errors.Is(err, errCant) {
		t.Errorf("one of an earlier version: %v", err)
	}
	client.knows = true
	if _, err := client.ask(&message{kind: shut}, -1); !errors.Is(err, ErrGone) {
		t.Errorf("without a file: %v", err)
	}
	if err := <-over; !errors.Is(err, errMessage) {
		t.Errorf("the starter process has ended: %v", err)
	}
}
