// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

func TestOpenDescribesDevices(t *testing.T) {
	t.Setenv("FAKE_DEVICES", "2")
	d := loadDevice(t, Options{MemoryLimit: 100 << 20})
	s, r := d.Open([]string{"CUDA_MODULE_LOADING=EAGER", "LD_PRELOAD=/bad", "nonsense"})
	must(t, "open", r)
	if s.Devices != 2 || len(s.Device) != 2 || s.DriverVersion != driver.MaxVersion {
		t.Errorf("%d devices, version %d", s.Devices, s.DriverVersion)
	}
	if s.WindowBase != devmem.Base || s.WindowBytes != 2*devmem.Window {
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
		t.Errorf("attributes: %d, results %d, %d", v.Attribute[75], v.AttributeResult[0],
			v.AttributeResult[150])
	}
	for _, m := range masked {
		if v.Attribute[m.attribute] != m.value {
			t.Errorf("attribute %d is %d, want %d (%s)", m.attribute, v.Attribute[m.attribute],
				m.value, m.why)
		}
	}
}

// TestOpenDescribesWays: what the driver says of the ways from GPU to GPU is passed on unchanged,
// and its error where it has no answer.
func TestOpenDescribesWays(t *testing.T) {
	t.Setenv("FAKE_DEVICES", "3")
	d := loadDevice(t, Options{})
	s, r := d.Open(nil)
	must(t, "open", r)
	for i := range s.Pair {
		p, from, to := &s.Pair[i], i/3, i%3
		want := wire.InventoryPair{}
		if from != to && from < 2 && to < 2 {
			want.Access = 1
			for op := range want.Atomic {
				want.Atomic[op] = uint16(op + 1)
			}
		} else if from != to {
			want.AtomicResult = uint16(gpubackend.NotSupported)
		}
		if from == 0 && to == 1 {
			want.Partial = 1
		}
		if *p != want {
			t.Errorf("from %d to %d: %+v, want %+v", from, to, *p, want)
		}
	}
}

// TestOpenDescribesLinks: a warm worker looks at the PCIe link again when a program comes.
func TestOpenDescribesLinks(t *testing.T) {
	folder := t.TempDir()
	device := filepath.Join(folder, "0001:01:01.0") // the address of the fake's first device
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
	write("class", "0x030200\n")
	d := loadDevice(t, Options{PCI: folder})
	must(t, "warm", d.Warm(0))
	write("current_link_speed", "16.0 GT/s PCIe\n")
	s, r := d.Open(nil)
	must(t, "open", r)
	v := &s.Device[0]
	got := [...]uint32{v.LinkGeneration, v.LinkWidth, v.LinkMaxGeneration, v.LinkMaxWidth,
		v.LinkOwnGeneration, uint32(v.PciClass)}
	if want := [...]uint32{4, 16, 5, 16, 5, 0x302}; got != want {
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
	if s.Device[0].Attribute[cudaabi.DeviceAttributePageableMemoryAccess] != 0 {
		t.Error("the guest is told of pageable access")
	}
}

func TestNoLibrary(t *testing.T) {
	if _, err := New(Options{Library: "/no/such/library.so"}); err == nil {
		t.Fatal("a library that isn't there was loaded")
	} else if !strings.Contains(err.Error(), "/no/such/library.so") {
		t.Errorf("error %v", err)
	}
	if _, err := New(Options{Library: "libc.so.6"}); err == nil ||
		!strings.Contains(err.Error(), "cu") {
		t.Errorf("a library that is no driver: error %v", err)
	}
}
