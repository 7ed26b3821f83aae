// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

func TestOpenDescribesDevices(t *testing.T) {
	t.Setenv("FAKE_DEVICES", "2")
	d := loadDevice(t, Options{MemoryLimit: 100 << 20})
	s, r := d.Open([]string{"CUDA_MODULE_LOADING=EAGER", "LD_PRELOAD=/bad", "nonsense"})
	must(t, "open", r)
	if s.Devices != 2 || len(s.Device) != 2 || s.DriverVersion != maxVersion {
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
