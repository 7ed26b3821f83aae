/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The control queue and what is asked over it (control.c, present.c, settings.c, beat.c, leave.c).
 * paracuda.h includes it.
 */
#ifndef PARACUDA_CONTROL_H
#define PARACUDA_CONTROL_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/virtio.h>
#include <linux/workqueue.h>

#include "paracuda_wire.h"

struct paracuda_channel;
struct paracuda_device;

/* A request on the control queue. It lives until it is answered or the device is stopped. */
struct paracuda_request {
	struct paracuda_control_request out;
	struct paracuda_control_response in;
	struct paracuda_settings settings;	/* behind in: HELLO, SETTINGS */
	bool posted;
	unsigned int era;	/* of the device, in which it was sent */
	bool answered;		/* released after status and number */
	u32 status;
	u32 number;
};

/* How the device is asked for a sign of life (beat.c). */
struct paracuda_beat {
	struct delayed_work work;
	struct paracuda_request request;
	unsigned int missed;
};

/* A device that goes away, and will be back. */
struct paracuda_absence {
	bool going;			/* present.c, as what follows: it is about to go away */
	u32 patience;			/* how many s programs wait then; 0: not at all */
	u8 key[16];			/* by which it recognises this VM */
	struct paracuda_request part;	/* AWAY or BACK */
	bool away;			/* away.c, as what follows: it is away */
	struct mutex coming;		/* held while it is found out whether it is back */
	struct list_head node;
	struct delayed_work over;
};

/* control.c */
long paracuda_answer_timeout(void);
void paracuda_control_done(struct virtqueue *vq);
void paracuda_control_poll(struct work_struct *work);
int paracuda_control_post(struct paracuda_device *dev, struct paracuda_request *req);
int paracuda_control_ask(struct paracuda_device *dev, struct paracuda_request *req,
			 const bool *over, long timeout);
bool paracuda_control_await(struct paracuda_device *dev, struct paracuda_request *req);
bool paracuda_control_order(struct paracuda_device *dev, struct paracuda_request *req);
int paracuda_status_errno(u32 status);

static inline bool paracuda_answered(const struct paracuda_request *req)
{
	/* Pairs with paracuda_control_reap(): what it stored is read after it. */
	return smp_load_acquire(&req->answered);
}

/* present.c */
bool paracuda_missed(struct paracuda_device *dev, unsigned int era, long err);
int paracuda_await_present(struct paracuda_device *dev);
int paracuda_await_settled(struct paracuda_device *dev);
void paracuda_heed_going(struct paracuda_device *dev, const struct paracuda_settings *settings);
int paracuda_say_back(struct paracuda_device *dev);
void paracuda_drop_again(struct paracuda_device *dev);
bool paracuda_share_begin(struct paracuda_device *dev);
void paracuda_share_end(struct paracuda_device *dev);

/* settings.c */
int paracuda_hello(struct paracuda_device *dev);
void paracuda_settings_get(struct paracuda_device *dev, struct paracuda_settings *settings);
void paracuda_settings_publish(struct paracuda_channel *ch,
			       const struct paracuda_settings *settings);
void paracuda_settings_watch(struct paracuda_device *dev);
void paracuda_settings_work(struct work_struct *work);

/* beat.c */
void paracuda_beat_work(struct work_struct *work);
void paracuda_beat_start(struct paracuda_device *dev);
void paracuda_beat_stop(struct paracuda_device *dev);

/* leave.c */
bool paracuda_reset_stops(struct paracuda_device *dev);
void paracuda_leave(struct paracuda_device *dev, long timeout);

#endif
