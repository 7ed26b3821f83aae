// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestChooseDevices(t *testing.T) {
	for _, test := range []struct {
		name, host string
		hostSet    bool
		guest      string
		want       string
	}{
		{"host has no choice", "", false, "1", "1"},
		{"indices count in the host's list", "3,5", true, "1", "5"},
		{"order is the guest's", "3,5", true, "1,0", "5,3"},
		{"index past the host's list", "3,5", true, "2", "-1"},
		{"list ends at the first bad entry", "3,5", true, "0,7,1", "3"},
		{"none", "3,5", true, "", "-1"},
		{"minus one", "3", true, "-1", "-1"},
		{"name in the host's list", "GPU-abc,GPU-def", true, "GPU-d", "GPU-def"},
		{"name outside of it", "GPU-abc", true, "GPU-d", "-1"},
		{"host offers none", "", true, "0", "-1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := chooseDevices(test.host, test.hostSet, test.guest); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestAdmitted: which of a guest process's variables its worker takes over.
func TestAdmitted(t *testing.T) {
	t.Setenv(moduleLoading, "LAZY")
	for _, tt := range []struct{ entry, value string }{ // value "": left out
		{"CUDA_DEVICE_MAX_CONNECTIONS=1", "1"},
		{"CUDA_DEVICE_MAX_CONNECTIONS=32", "32"},
		{"CUDA_DEVICE_MAX_CONNECTIONS=0", ""},
		{"CUDA_DEVICE_MAX_CONNECTIONS=33", ""},
		{"CUDA_DEVICE_MAX_CONNECTIONS=-1", ""},
		{"CUDA_DEVICE_MAX_CONNECTIONS=99999999999999999999", ""},
		{"CUDA_DEVICE_MAX_CONNECTIONS=8\x00", ""},
		{"CUDA_DEVICE_MAX_CONNECTIONS", ""},
		{"CUDA_BINARY_LOADER_THREAD_COUNT=64", "64"},
		{"CUDA_BINARY_LOADER_THREAD_COUNT=100000", ""},
		{"CUDA_SCALE_LAUNCH_QUEUES=0.25x", "0.25x"},
		{"CUDA_SCALE_LAUNCH_QUEUES=4000x", ""},
		{"CUDA_MODULE_LOADING=EAGER", "EAGER"},
		{"CUDA_MODULE_LOADING=/etc/passwd", ""},
		{"CUDA_CACHE_DISABLE=1", "1"},
		{"CUDA_CACHE_DISABLE=yes", ""},
		{"CUDA_CACHE_PATH=/root", ""},
		{"CUDA_CACHE_MAXSIZE=1", ""},
		{"CUDA_COREDUMP_FILE=/tmp/core", ""},
		{"CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1", ""},
		{"CUDA_DEVICE_WAITS_ON_EXCEPTION=1", ""},
		{"CUDA_INJECTION64_PATH=/tmp/evil.so", ""},
		{"CUDA_MPS_PIPE_DIRECTORY=/tmp", ""},
		{"CUDA_LOG_FILE=/tmp/log", ""},
		{"CUDA_LAUNCH_BLOCKING=1", ""},
		{"CUDA_AUTO_BOOST=1", ""},
		{"LD_PRELOAD=/tmp/evil.so", ""},
	} {
		set := admitted([]string{tt.entry})
		name, _, _ := strings.Cut(tt.entry, "=")
		if got, ok := set[name]; got != tt.value || ok != (tt.value != "") || ok && len(set) != 1 ||
			!ok && len(set) != 0 {
			t.Errorf("%q sets %q", tt.entry, set)
		}
	}
}

// TestVariablesAreExplained: the variables that docs/guest.md says are passed on are those that
// are.
func TestVariablesAreExplained(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/guest.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	item := regexp.MustCompile("(?m)^- ((?:`CUDA_[A-Z0-9_]+`[,\\s]*)+): passed on")
	variable := regexp.MustCompile("`(CUDA_[A-Z0-9_]+)`")
	for _, names := range item.FindAllStringSubmatch(string(manual), -1) {
		for _, name := range variable.FindAllStringSubmatch(names[1], -1) {
			rows[name[1]] = true
		}
	}
	for name := range passed {
		if !rows[name] {
			t.Errorf("guest.md doesn't say that %s is passed on", name)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("guest.md says that %s is passed on", name)
	}
}
