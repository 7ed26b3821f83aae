// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// mostBesideArena bounds how much of the VM's memory a worker maps besides its arena: rings,
// records, headers and lists are a few pages.
const mostBesideArena = 64 * 4096

// TestWorkersMapLittle looks at what workers have mapped of their VM's memory while a program runs
// that has pinned next to nothing. They have its files only as numbers that they can only map, and
// can't write to what they may only read.
func TestWorkersMapLittle(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		skip(t, "this needs root: workers aren't dumpable")
	}
	inEach(t, func(t *testing.T, vm frontEnd) {
		cmd := exec.Command(paracuda, "run", "--vm", vm.name, "--gpu", "soft", "--",
			filepath.Join(programs, "backpressure"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		var said strings.Builder
		cmd.Stderr, cmd.WaitDelay = &said, 10*time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		most, numbers := uint64(0), 0
		for late := patienceOf(vm.boot + 4*vm.limit); !late.over(); {
			select {
			case err := <-ended:
				const arena = 8 << 20
				if err != nil || most < arena || most > arena+mostBesideArena {
					t.Errorf("%v: %d bytes of the VM's memory were mapped, want %d and a few "+
						"pages:%s", err, most, arena, tail(said.String()))
				}
				if numbers == 0 {
					t.Error("no worker was seen with the VM's memory")
				}
				return
			case <-time.After(100 * time.Millisecond):
			}
			for _, pid := range workersOf(cmd.Process.Pid) {
				bytes, inodes, unsafe := mappedOfVM(pid)
				if unsafe > 0 {
					t.Errorf("%d mappings that may only be read could be made writable", unsafe)
				}
				most = max(most, bytes)
				for _, fd := range descriptorsOf(pid, inodes) {
					numbers++
					if fd < sandbox.AskedFrom {
						t.Errorf("a worker has the VM's memory as descriptor %d", fd)
					}
				}
			}
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		t.Fatalf("not finished: %v%s", <-ended, tail(said.String()))
	})
}

// descriptorsOf are the descriptors by which a process has some files.
func descriptorsOf(pid string, inodes map[uint64]bool) (fds []int) {
	links, _ := filepath.Glob("/proc/" + pid + "/fd/*")
	for _, link := range links {
		var st unix.Stat_t
		fd, err := strconv.Atoi(filepath.Base(link))
		if errors.Join(err, unix.Stat(link, &st)) == nil && inodes[st.Ino] {
			fds = append(fds, fd)
		}
	}
	return fds
}

// mappedOfVM is how much a process can touch of shared memory that isn't Paracuda's own, and of
// which files; and how many of these mappings it may only read, but could make writable.
func mappedOfVM(pid string) (bytes uint64, inodes map[uint64]bool, unsafe int) {
	inodes = map[uint64]bool{}
	text, _ := os.ReadFile("/proc/" + pid + "/smaps")
	readOnly := false // the last one was
	for line := range strings.Lines(string(text)) {
		if flags, is := strings.CutPrefix(line, "VmFlags:"); is && readOnly &&
			strings.Contains(flags, " mw") {
			unsafe++
		}
		var from, to, offset, inode uint64
		var mode, device, file string
		n, err := fmt.Sscanf(line, "%x-%x %s %x %s %d %s", &from, &to, &mode, &offset, &device,
			&inode, &file)
		if n > 2 { // a mapping, perhaps of no file
			readOnly = false
		}
		if err == nil && mode[0] == 'r' && mode[3] == 's' && strings.HasPrefix(file, "/") &&
			!strings.HasPrefix(file, "/memfd:paracuda-") {
			bytes += to - from
			inodes[inode] = true
			readOnly = mode[1] == '-'
		}
	}
	return bytes, inodes, unsafe
}
