// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"strings"
	"testing"
)

func TestPlugMemory(t *testing.T) {
	f := newFake(t)
	if err := PlugMemory(context.Background(), QMP(f.socket), "dimm0", 1<<28); err != nil {
		t.Fatal(err)
	}
	o, d := f.objects["dimm0-memory"], f.devices["dimm0"]
	if o["qom-type"] != "memory-backend-memfd" || o["size"] != float64(1<<28) ||
		o["share"] != true {
		t.Errorf("its backend is %v", o)
	}
	if d["driver"] != "pc-dimm" || d["memdev"] != "dimm0-memory" {
		t.Errorf("the DIMM is %v", d)
	}
	if err := UnplugMemory(context.Background(), QMP(f.socket), "dimm0"); err != nil {
		t.Fatal(err)
	}
	if len(f.objects) != 0 || len(f.devices) != 0 {
		t.Errorf("left: %v, %v", f.objects, f.devices)
	}
}

func TestPlugMemoryLeavesNothingWhenItFails(t *testing.T) {
	f := newFake(t)
	f.refuse["device_add"] = "no free slots"
	err := PlugMemory(context.Background(), QMP(f.socket), "dimm0", 1<<28)
	if err == nil || !strings.Contains(err.Error(), "no free slots") {
		t.Errorf("no slot: %v", err)
	}
	if len(f.objects) != 0 {
		t.Errorf("left: %v", f.objects)
	}
}
