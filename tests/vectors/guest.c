/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest without a kernel, which a multiboot loader starts: gives each queue of the first virtio
 * device on PCI a vector of MSI-X, and starts the device. Then it says on the serial line how often
 * each vector was raised, in hexadecimal, for each byte that comes there.
 *
 * It touches little, so that it runs where a guest's kernel doesn't.
 */
#include <stdint.h>

#define QUEUES 5
#define ENTRIES 8
#define VECTOR 0x40 /* of queue 0 */
#define PAGE 4096

/* The local APIC. */
#define APIC 0xfee00000u
#define APIC_SPURIOUS (APIC + 0xf0)
#define APIC_ON 0x100

#define SERIAL 0x3f8
#define SERIAL_STATUS (SERIAL + 5)

/* PCI's configuration space. */
#define PCI_COMMAND 0x04
#define PCI_BAR 0x10
#define PCI_CAPABILITIES 0x34
#define PCI_ON 6 /* memory, and the device may write */
#define CAP_VENDOR 0x09
#define CAP_MSIX 0x11
#define VIRTIO 0x1af4
#define VIRTIO_LEAST 0x1040

/* What the virtio specification calls the common configuration. */
struct common {
	uint32_t device_select, device_feature, driver_select, driver_feature;
	uint16_t msix_config, num_queues;
	uint8_t status, generation;
	uint16_t queue_select, queue_size, queue_vector, queue_enable, queue_notify;
	uint32_t desc[2], driver[2], device[2];
};
#define STATUS_DRIVER 3
#define STATUS_FEATURES 8
#define STATUS_READY 4

struct gate {
	uint16_t low, selector, type, high;
};

struct __attribute__((packed)) table {
	uint16_t limit;
	uint32_t base;
};

struct vector {
	uint32_t address, high, data, masked;
};

/* How often each vector was raised, and where its handler returns to. */
volatile uint32_t raised[QUEUES];
uint32_t back;
extern const uint8_t handlers[QUEUES][64];

static uint8_t rings[QUEUES][3][PAGE] __attribute__((aligned(PAGE)));
static struct gate gates[256] __attribute__((aligned(8)));
static const uint64_t segments[] = { 0, 0x00cf9a000000ffff, 0x00cf92000000ffff };

static void out8(uint16_t port, uint8_t value)
{
	__asm__ volatile("outb %0, %1" ::"a"(value), "Nd"(port));
}

static uint8_t in8(uint16_t port)
{
	uint8_t value;

	__asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static uint32_t pci(unsigned device, unsigned offset, const uint32_t *value)
{
	uint32_t address = 1u << 31 | device << 11 | (offset & ~3u), read;

	__asm__ volatile("outl %0, %1" ::"a"(address), "Nd"((uint16_t)0xcf8));
	if (value)
		__asm__ volatile("outl %0, %1" ::"a"(*value), "Nd"((uint16_t)0xcfc));
	__asm__ volatile("inl %1, %0" : "=a"(read) : "Nd"((uint16_t)0xcfc));
	return read;
}

static uint32_t pci_read(unsigned device, unsigned offset)
{
	return pci(device, offset, 0) >> 8 * (offset & 3);
}

static void pci_set(unsigned device, unsigned offset, uint32_t bits)
{
	uint32_t value = pci(device, offset, 0) | bits;

	pci(device, offset, &value);
}

static void put(char c)
{
	while (!(in8(SERIAL_STATUS) & 0x20))
		;
	out8(SERIAL, c);
}

static void say(const char *text)
{
	while (*text)
		put(*text++);
}

static void say_number(uint32_t n)
{
	for (int shift = 12; shift >= 0; shift -= 4)
		put("0123456789abcdef"[n >> shift & 15]);
	put(' ');
}

static void give_up(const char *why)
{
	say(why);
	put('\n');
	for (;;)
		__asm__ volatile("cli; hlt");
}

/* Where a part of a device's memory is. */
static uint32_t place(unsigned device, unsigned bar, uint32_t offset)
{
	uint32_t at = pci_read(device, PCI_BAR + 4 * bar);

	if (at & 1 || ((at & 6) == 4 && pci_read(device, PCI_BAR + 4 * bar + 4)))
		give_up("a region of the device isn't memory, or above 4 GiB");
	return (at & ~15u) + offset;
}

static unsigned find_device(void)
{
	for (unsigned device = 0; device < 32; device++) {
		uint32_t id = pci_read(device, 0);

		if ((id & 0xffff) == VIRTIO && id >> 16 >= VIRTIO_LEAST)
			return device;
	}
	give_up("there is no virtio device");
	return 0;
}

/* A capability of the device; of virtio's own the first, which is of the common configuration. */
static unsigned find_capability(unsigned device, unsigned id)
{
	unsigned at = pci_read(device, PCI_CAPABILITIES) & 0xff;

	while (at && ((pci_read(device, at) & 0xff) != id ||
		      (id == CAP_VENDOR && (pci_read(device, at + 3) & 0xff) != 1)))
		at = pci_read(device, at + 1) & 0xff;
	if (!at)
		give_up("the device lacks a capability");
	return at;
}

static void prepare_interrupts(void)
{
	struct table gdt = { sizeof(segments) - 1, (uint32_t)segments };
	struct table idt = { sizeof(gates) - 1, (uint32_t)gates };

	__asm__ volatile("lgdt %0; ljmp $8, $1f; 1: mov %1, %%ds; mov %1, %%es; mov %1, %%ss"
			 :
			 : "m"(gdt), "r"(16)
			 : "memory");
	for (unsigned queue = 0; queue < QUEUES; queue++) {
		uint32_t at = (uint32_t)handlers[queue];

		gates[VECTOR + queue] = (struct gate){ at & 0xffff, 8, 0x8e00, at >> 16 };
	}
	__asm__ volatile("lidt %0" ::"m"(idt));
	out8(0x21, 0xff); /* nothing of the old interrupt controller's */
	out8(0xa1, 0xff);
	*(volatile uint32_t *)APIC_SPURIOUS = APIC_ON | 0xff;
}

static void set_vectors(unsigned device)
{
	unsigned cap = find_capability(device, CAP_MSIX);
	uint32_t where = pci_read(device, cap + 4);
	volatile struct vector *v = (void *)place(device, where & 7, where & ~7u);

	if ((pci_read(device, cap + 2) & 0x7ff) + 1 < 1 + QUEUES)
		give_up("there isn't a vector for each queue");
	for (unsigned queue = 0; queue < QUEUES; queue++) {
		v[1 + queue].address = APIC;
		v[1 + queue].high = 0;
		v[1 + queue].data = VECTOR + queue;
		v[1 + queue].masked = 0;
	}
	pci_set(device, cap, 1u << 31);
}

static void set_queue(volatile struct common *c, unsigned queue)
{
	c->queue_select = queue;
	c->queue_size = ENTRIES;
	c->queue_vector = 1 + queue;
	if (c->queue_vector != 1 + queue)
		give_up("a queue has no vector");
	c->desc[0] = (uint32_t)rings[queue][0];
	c->driver[0] = (uint32_t)rings[queue][1];
	c->device[0] = (uint32_t)rings[queue][2];
	c->desc[1] = c->driver[1] = c->device[1] = 0;
	c->queue_enable = 1;
}

static void start_device(unsigned device)
{
	unsigned cap = find_capability(device, CAP_VENDOR);
	volatile struct common *c;

	pci_set(device, PCI_COMMAND, PCI_ON);
	c = (void *)place(device, pci_read(device, cap + 4) & 0xff, pci_read(device, cap + 8));
	set_vectors(device);
	c->status = 0;
	c->status = STATUS_DRIVER;
	c->driver_select = 1;
	c->driver_feature = 1; /* VERSION_1 */
	c->status = STATUS_DRIVER | STATUS_FEATURES;
	if (c->num_queues != QUEUES)
		give_up("the device has another number of queues");
	for (unsigned queue = 0; queue < QUEUES; queue++)
		set_queue(c, queue);
	c->status = STATUS_DRIVER | STATUS_FEATURES | STATUS_READY;
}

void start(void)
{
	prepare_interrupts();
	start_device(find_device());
	say("started\n");
	__asm__ volatile("sti");
	for (;;) {
		if (!(in8(SERIAL_STATUS) & 1))
			continue;
		in8(SERIAL);
		for (unsigned queue = 0; queue < QUEUES; queue++)
			say_number(raised[queue]);
		put('\n');
	}
}

/*
 * A handler counts, and tells the local APIC that it has. It returns without iret: where the
 * processor has no virtualization, KVM emulates what a guest executes, and doesn't know that.
 * Nothing comes between sti and the jump.
 */
__asm__(".macro handler queue\n"
	".balign 64\n"
	"incl raised + 4 * \\queue\n"
	"movl $0, 0xfee000b0\n"
	"andl $~0x200, 8(%esp)\n"
	"popl back\n"
	"addl $4, %esp\n"
	"popfl\n"
	"sti\n"
	"jmp *back\n"
	".endm\n"
	".balign 64\n"
	"handlers:\n"
	"handler 0\n"
	"handler 1\n"
	"handler 2\n"
	"handler 3\n"
	"handler 4\n");

/* The multiboot header, and the first instructions, which make a stack. */
__asm__(".section .start, \"ax\"\n"
	".align 4\n"
	".long 0x1badb002, 0, -0x1badb002\n"
	".global _start\n"
	"_start: mov $stack_end, %esp\n"
	"call start\n"
	".bss\n"
	".align 16\n"
	".skip 8192\n"
	"stack_end:\n"
	".text\n");
