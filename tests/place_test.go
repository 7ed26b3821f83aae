// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"strings"
	"testing"
)

// placeScript prints the PCI address of the GPU in CUDA and NVML, and that of the device in the VM.
const placeScript = `
import ctypes, os
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
assert cuda.cuInit(0) == 0 and nvml.nvmlInit_v2() == 0
text = ctypes.create_string_buffer(32)
assert cuda.cuDeviceGetPCIBusId(text, 32, 0) == 0
numbers = []
for attribute in 50, 33, 34:
    value = ctypes.c_int()
    assert cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0) == 0
    numbers.append(value.value)
handle, info = ctypes.c_void_p(), ctypes.create_string_buffer(68)
assert nvml.nvmlDeviceGetHandleByPciBusId_v2(text, ctypes.byref(handle)) == 0
assert nvml.nvmlDeviceGetPciInfo_v3(handle, info) == 0
print(text.value.decode().lower(), "%04x:%02x:%02x.0" % tuple(numbers),
    info.raw[36:].split(b"\0")[0].decode().lower()[4:])
device = os.path.dirname(os.path.realpath("/sys/class/misc/paracuda/device"))
place = os.path.basename(device)
print(place if os.path.exists("/sys/bus/pci/devices/" + place) else "none")
`

// TestPlaceOnTheBus: CUDA and NVML give the GPU the same PCI address. In a VM with a bus it is the
// address that lspci shows for the device.
func TestPlaceOnTheBus(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		r := vm.run(t, vm.limit, "--", python(t), "-c", placeScript)
		said, place, _ := strings.Cut(strings.TrimSpace(r.stdout), "\n")
		ids := strings.Fields(said)
		if r.exit != 0 || len(ids) != 3 || ids[0] != ids[1] || ids[1] != ids[2] {
			t.Fatalf("exit code %d, want 0 and three equal addresses:%s%s", r.exit, tail(r.stdout),
				tail(r.stderr))
		}
		if (vm.name == "qemu") != (place != "none") || place != "none" && place != ids[0] {
			t.Errorf("CUDA has the GPU at %s, the VM the device at %s", ids[0], place)
		}
	})
}
