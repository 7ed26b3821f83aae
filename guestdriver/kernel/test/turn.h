/* SPDX-License-Identifier: GPL-2.0 */
/* Part of paracuda-test.c: waits while the worker says that the VM's turn is awaited. */

struct turn {
	pthread_t thread, waiter;
	struct paracuda_arena_header *header;
};

/* The turn begins, and something wakes the thread that waits. */
static void *begin_turn(void *arg)
{
	struct turn *t = arg;

	usleep(20000);
	__atomic_store_n(&t->header->held, 0, __ATOMIC_SEQ_CST);
	pthread_kill(t->waiter, SIGALRM);
	return NULL;
}

static void turns(int fd, void *arena)
{
	struct turn t = { .waiter = pthread_self(), .header = arena };

	__atomic_store_n(&t.header->held, 1, __ATOMIC_SEQ_CST);
	expect(wait_word(fd, PARACUDA_SLOTS, 0, 5 * 1000 * 1000), ETIMEDOUT,
	       "WAIT with a limit before the VM's turn");
	pthread_create(&t.thread, NULL, begin_turn, &t);
	expect(wait_word(fd, PARACUDA_SLOTS, 0, 0), EAGAIN, "WAIT until the VM's turn");
	pthread_join(t.thread, NULL);
}
