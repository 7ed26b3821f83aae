// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

func TestOpenDescribesDevices(t *testing.T) {
	t.Setenv("FAKE_DEVICES", "2")
	d := loadDevice(t, Options{MemoryLimit: 100 << 20})
	s, r := d.Open([]string{"CUDA_MODULE_LOADING=EAGER", "LD_PRELOAD=/bad", "nonsense"})
	must(t, "open", r)
	if s.Devices != 2 || len(s.Device) != 2 || s.DriverVersion != driver.MaxVersion {
		t.Errorf("%d devices, version %d", s.Devices, s.DriverVersion)
	}
	if s.WindowBase != devmem.Base || s.WindowBytes != 2*windowBytes {
		t.Errorf("window %#x+%#x", s.WindowBase, s.WindowBytes)
	}
	v := &s.Device[1]
	if name, _, _ := bytes.Cut(v.Name[:], []byte{0}); string(name) != "Fake GPU 1" {
		t.Errorf("name %q", name)
	}
	if v.Uuid[1] != 17 || v.TotalMemory != 100<<20 || v.LuidResult != 801 {
		t.Errorf("uuid %x, %d bytes, LUID's result %d", v.Uuid, v.TotalMemory, v.LuidResult)
	}
	if v.Attribute[75] != 9 || v.AttributeResult[0] != 1 || v.AttributeResult[150] != 1 {
		t.Errorf("attributes: %d, results %d, %d", v.Attribute[75], v.AttributeResult[0], v.AttributeResult[150])
	}
	for _, m := range masked {
		if v.Attribute[m.attribute] != m.value {
			t.Errorf("attribute %d is %d, want %d (%s)", m.attribute, v.Attribute[m.attribute], m.value, m.why)
		}
	}
}

// TestOpenDescribesLinks: a warm worker looks again when a program comes.
func TestOpenDescribesLinks(t *testing.T) {
	folder := t.TempDir()
	device := filepath.Join(folder, "0001:01:01.0") // where the fake's devices are
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(device, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(device, 0o755); err != nil {
		t.Fatal(err)
	}
	write("current_link_speed", "2.5 GT/s PCIe\n")
	write("current_link_width", "16\n")
	write("max_link_speed", "32.0 GT/s PCIe\n")
	write("max_link_width", "16\n")
	d := loadDevice(t, Options{PCI: folder})
	must(t, "warm", d.Warm())
	write("current_link_speed", "16.0 GT/s PCIe\n")
	s, r := d.Open(nil)
	must(t, "open", r)
	v := &s.Device[0]
	got := [...]uint32{v.LinkGeneration, v.LinkWidth, v.LinkMaxGeneration, v.LinkMaxWidth, v.LinkOwnGeneration}
	if want := [...]uint32{4, 16, 5, 16, 5}; got != want {
		t.Errorf("link %v, want %v", got, want)
	}
}

func TestMaskedAttributesAreInOrder(t *testing.T) {
	for i := 1; i < len(masked); i++ {
		if masked[i].attribute <= masked[i-1].attribute {
			t.Errorf("attribute %d after %d", masked[i].attribute, masked[i-1].attribute)
		}
	}
}

func TestOpenRefusesPageableAccess(t *testing.T) {
	t.Setenv("FAKE_PAGEABLE", "1")
	var text strings.Builder
	log := logrus.New()
	log.SetOutput(&text)
	d := loadDevice(t, Options{Log: logrus.NewEntry(log)})
	_, r := d.Open(nil)
	want(t, "open", r, gpubackend.NotPermitted)
	if !strings.Contains(text.String(), "uvm_disable_hmm=1") {
		t.Errorf("the log doesn't say how to turn it off: %s", text.String())
	}
	d = loadDevice(t, Options{AllowPageable: true})
	s, r := d.Open(nil)
	must(t, "open when allowed", r)
	if s.Device[0].Attribute[attributePageableMemoryAccess] != 0 {
		t.Error("the guest is told of pageable access")
	}
}

func TestNoLibrary(t *testing.T) {
	if _, err := New(Options{Library: "/no/such/library.so"}); err == nil {
		t.Fatal("a library that isn't there was loaded")
	} else if !strings.Contains(err.Error(), "/no/such/library.so") {
		t.Errorf("error %v", err)
	}
	if _, err := New(Options{Library: "libc.so.6"}); err == nil || !strings.Contains(err.Error(), "cu") {
		t.Errorf("a library that is no driver: error %v", err)
	}
}

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

// TestAdmitted: what of a guest process's variables its worker takes over.
func TestAdmitted(t *testing.T) {
	t.Setenv(moduleLoading, "LAZY")
	for _, tt := range []struct{ entry, value string }{ // no value: left out
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
		if got, ok := set[name]; got != tt.value || ok != (tt.value != "") || ok && len(set) != 1 || !ok && len(set) != 0 {
			t.Errorf("%q sets %q", tt.entry, set)
		}
	}
}

// TestVariablesAreExplained looks for each variable in the manual, in the row that says what becomes of it.
func TestVariablesAreExplained(t *testing.T) {
	manual, err := os.ReadFile("../../docs/operation.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for line := range strings.Lines(string(manual)) {
		if cells := strings.Split(line, "|"); len(cells) == 4 && strings.HasPrefix(strings.TrimSpace(cells[2]), "passed on") {
			for _, name := range regexp.MustCompile("`(CUDA_[A-Z0-9_]+)`").FindAllStringSubmatch(cells[1], -1) {
				rows[name[1]] = true
			}
		}
	}
	for name := range passed {
		if !rows[name] {
			t.Errorf("operation.md doesn't say that %s is passed on", name)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("operation.md says that %s is passed on", name)
	}
}
