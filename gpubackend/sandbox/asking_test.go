// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// ask asks for mappings as a worker does, and prints whether it can. A call that its role doesn't
// need ends it.
func ask() int {
	listener, missing, err := FilterAsking(SoftWorker, 0)
	fmt.Printf("%t, %v, %v", listener >= 0, missing, err)
	leave()
	return 0
}

// askBesideAnother has a listener already.
func askBesideAnother() int {
	if _, err := setFilter(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, []unix.SockFilter{
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}); err != nil {
		fmt.Print(err)
		return 0
	}
	return ask()
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
