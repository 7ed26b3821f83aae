// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/memfd"
)

// ask asks for mappings as a worker does, and prints whether it can. A call that its role doesn't
// need ends it.
func ask() int {
	listener, missing, err := FilterAsking(SoftWorker, 0)
	if missing != nil && err == nil { // then it makes files by itself
		var fd int
		if fd, err = memfd.Make(memfd.Form{Kind: memfd.Created, Bytes: 1 << 20}); err == nil {
			err = unix.Close(fd)
		}
	}
	fmt.Printf("%t, %v, %v", listener >= 0, missing, err)
	leave()
	return 0
}

// askBesideAnother has a listener already.
func askBesideAnother() int {
	runtime.LockOSThread() // the filter is this thread's
	if _, err := setFilter(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, []unix.SockFilter{
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}); err != nil {
		fmt.Print(err)
		return 0
	}
	return ask()
}

// roomAsked asks, and prints for how many descriptors its table has room.
func roomAsked() int {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if _, _, err := FilterAsking(SoftWorker, 0); err != nil {
		fmt.Println(err)
		return 1
	}
	text := make([]byte, 1<<14)
	n, _ := unix.Read(int(status.Fd()), text)
	fmt.Print(room(text[:n]))
	leave()
	return 0
}

// roomOfChild makes room, and prints for how many descriptors a child's table has room.
func roomOfChild() int {
	if err := MakeRoom(unix.Stderr); err != nil {
		fmt.Println(err)
		return 1
	}
	status, err := exec.Command("cat", "/proc/self/status").Output()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Print(room(status))
	return 0
}

// room is what the kernel says of a process's table of descriptors.
func room(status []byte) string {
	_, after, _ := strings.Cut(string(status), "FDSize:")
	size, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(size)
}

// askWithFewFiles may not have as many descriptors.
func askWithFewFiles() int {
	few := unix.Rlimit{Cur: AskedFrom, Max: AskedFrom}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		fmt.Println(err)
		return 1
	}
	return ask()
}

// TestFilterAsking: a worker's filter comes with a listener, or says why not; it is a filter all
// the same.
func TestFilterAsking(t *testing.T) {
	const busy = "device or resource busy"
	alone := run(t, "ask", (*exec.Cmd).Start)
	if strings.HasSuffix(alone, busy+", <nil>") {
		t.Skip("a filter around this process has a listener already, and there can be only one")
	}
	if alone != "true, <nil>, <nil>" {
		t.Errorf("alone: %q", alone)
	}
	for deed, want := range map[string]string{
		"ask beside another": busy,
		"ask with few files": "it may have 16384 files",
	} {
		got := run(t, deed, (*exec.Cmd).Start)
		if !strings.HasPrefix(got, "false, ") || !strings.Contains(got, want) ||
			!strings.HasSuffix(got, ", <nil>") {
			t.Errorf("%s: %q", deed, got)
		}
	}
}

// TestKernelsThatGive: a worker asks nobody where the kernel can't give it files.
func TestKernelsThatGive(t *testing.T) {
	for release, gives := range map[string]bool{
		"5.9.0": true, "5.10.0-8-amd64": true, "6.18.44-x": true, "10.0": true,
		"5.8.18": false, "4.18.0-553.el8": false, "": false, "six": false,
	} {
		if err := givesFiles(release); (err == nil) != gives {
			t.Errorf("%q: %v", release, err)
		}
	}
}

// TestRoomIsMade: the first file that a device process gives needn't wait for a larger table.
func TestRoomIsMade(t *testing.T) {
	for _, deed := range []string{"room asked", "room of child"} {
		got := run(t, deed, (*exec.Cmd).Start)
		if size, err := strconv.Atoi(got); err != nil || size <= lastAsked {
			t.Errorf("%s: the table has room for %q descriptors", deed, got)
		}
	}
}
