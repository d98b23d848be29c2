/* Callers append and take partitions back, an I/O thread sends and settles, a broker answers: test_data_plane_threads.py. */
#include "plane.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <pthread.h>
enum { PARTS = 4, CALLERS = 3, RECORDS = 30000 };
static KpPlane plane; static KpLane lane; static KpTopic topic; static KpPart parts[PARTS];
static atomic_int done_callers, begun, settled, detached; static int sv[2];
static int64_t now_ms(void){struct timespec t; clock_gettime(CLOCK_MONOTONIC,&t); return t.tv_sec*1000+t.tv_nsec/1000000;}
static atomic_int codec_calls;
static int64_t bound(KpCodec*c,int64_t size){(void)c; return size+8;}
static int64_t compress(KpCodec*c,unsigned char*to,int64_t room,const unsigned char*from,int64_t size){ (void)c; if(atomic_fetch_add(&codec_calls,1)%50==0) return -1; if(room<size+8) exit(7); memcpy(to,from,(size_t)size); return size/2+1;}
static KpCodec codec={3,bound,compress};
typedef struct { KpBatch b; int32_t first; atomic_int busy; } Batch;
static atomic_int by_callers;
static pthread_rwlock_t gate=PTHREAD_RWLOCK_INITIALIZER; static int32_t expected[PARTS], epochs[PARTS]; static int transactions;
static int64_t next_value[PARTS], next_ack[PARTS]; /* next_value under mu */
static KpBatch *python[PARTS]; static KpBatch *python_last[PARTS]; /* handed back: under mu */
static void hand_back(int p){ KpBatch *b=kp_part_detach(&parts[p]); while(b){KpBatch*n=b->next; b->next=NULL; if(python_last[p])python_last[p]->next=b; else python[p]=b; python_last[p]=b; b=n; atomic_fetch_add(&detached,1);} }
static void *caller(void *arg){
  unsigned seed=(unsigned)(size_t)arg;
  for(int i=0;i<RECORDS;i++){
    int p=rand_r(&seed)%PARTS; KpPart *part=&parts[p]; bool wakes=false;
    for(;;){
      pthread_rwlock_rdlock(&gate); /* a transaction is open: no commit waits for the last batch */
      Batch *b=calloc(1,sizeof *b); b->b.data=malloc(100);
      kp_part_lock(part);
      if(!part->lane){ kp_part_unlock(part); pthread_rwlock_unlock(&gate); free(b->b.data); free(b); sched_yield(); continue; }
      if(plane.codec && part->open && part->open->record_count>=3 && rand_r(&seed)%8==0){
        Batch *full=(Batch*)part->open; int64_t end=0; atomic_store(&full->busy,1); kp_part_begin_compression(part,now_ms()); kp_part_unlock(part);
        unsigned char *made=kp_compress(plane.codec,&full->b,&end); if(rand_r(&seed)%4==0) sched_yield();
        kp_part_lock(part); kp_part_end_compression(part,&full->b,&made,end); atomic_store(&full->busy,0); atomic_fetch_add(&by_callers,1); free(made);
        if(!part->lane){ kp_part_unlock(part); pthread_rwlock_unlock(&gate); free(b->b.data); free(b); sched_yield(); continue; }
      }
      if(part->open && part->open->record_count<5){ kp_part_note(part->open, 61+part->open->record_count+1, part->open->record_count+1, 1,1); next_value[p]++; kp_part_unlock(part); free(b->b.data); free(b);}
      else { b->first=(int32_t)next_value[p]++; kp_part_note(&b->b,62,1,1,1); atomic_fetch_add(&begun,1); wakes=kp_part_begin(part,&b->b,now_ms()); if(rand_r(&seed)%50==0) hand_back(p); kp_part_unlock(part);}
      pthread_rwlock_unlock(&gate);
      break;
    }
    (void)wakes;
    if(rand_r(&seed)%64==0) sched_yield();
  }
  atomic_fetch_add(&done_callers,1); return NULL;
}
static void put32(unsigned char*a,uint32_t v){a[0]=v>>24;a[1]=v>>16;a[2]=v>>8;a[3]=v;}
static uint32_t g32(unsigned char*a){return (uint32_t)a[0]<<24|a[1]<<16|a[2]<<8|a[3];}
static void need(int fd,unsigned char*at,size_t n){ while(n){ssize_t r=read(fd,at,n); if(r<=0) exit(0); at+=r;n-=r;} }
static void *broker(void*arg){ (void)arg; static unsigned char in[1<<20]; unsigned char out[4096];
  for(;;){ need(sv[1],in,4); uint32_t n=g32(in); need(sv[1],in,n);
    uint32_t corr=g32(in+4); unsigned char*at=in+8+2; uint32_t topics=g32(at); at+=4; (void)topics; int16_t len=(int16_t)(at[0]<<8|at[1]); at+=2+len; uint32_t np=g32(at); at+=4;
    unsigned char*o=out+4; put32(o,corr);o+=4; put32(o,1);o+=4; *o++=0;*o++=1;*o++='t'; put32(o,np);o+=4;
    for(uint32_t i=0;i<np;i++){ uint32_t idx=g32(at); uint32_t size=g32(at+4); at+=8+size; put32(o,idx);o+=4; *o++=0;*o++=0; put32(o,0);o+=4;put32(o,1);o+=4; memset(o,0xff,8);o+=8; }
    put32(o,0);o+=4; put32(out,(uint32_t)(o-out-4)); if(write(sv[1],out,(size_t)(o-out))<0) exit(1); }
}
static int count_of(KpRequest*r){int n=0; for(int i=0;i<r->batch_count;i++){Batch*b=(Batch*)r->batches[i]; int p=b->b.part->index; if(b->first<next_ack[p]){printf("ORDER part %d: %d after %ld\n",p,b->first,(long)next_ack[p]);exit(2);} next_ack[p]=b->first+b->b.record_count; atomic_fetch_add(&settled,1);
    if(parts[p].is_numbered){ if(b->b.producer_epoch!=epochs[p]){epochs[p]=b->b.producer_epoch; expected[p]=0;}
      if(b->b.producer_epoch!=(int16_t)plane.generation||b->b.sequence!=expected[p]){printf("NUMBER part %d: epoch %d of %ld, %d instead of %d\n",p,b->b.producer_epoch,(long)plane.generation,b->b.sequence,expected[p]);exit(5);} expected[p]+=b->b.record_count; } kp_batch_forget_compressed(&b->b); free(b->b.data); free(b); n++;} return n;}
int main(void){
  plane.linger_ms=getenv("LINGER")?1:0; plane.request_timeout_ms=plane.delivery_timeout_ms=plane.longest_open_ms=30000; kp_plane_set_sleep(&plane,INT64_MIN);
  plane.is_transactional=getenv("TRANSACTIONS")!=NULL; if(getenv("COMPRESSION")) plane.codec=&codec; int rounds=0; bool ending=false;
  socketpair(AF_UNIX,SOCK_STREAM,0,sv); fcntl(sv[0],F_SETFL,O_NONBLOCK);
  kp_lane_init(&lane,&plane,NULL); lane.fd=sv[0]; lane.version=3; lane.fields=(unsigned char*)"\xff\xff"; lane.fields_size=2; lane.most_in_flight=5; lane.most_request_bytes=1<<20; lane.armed=true;
  topic.name=(unsigned char*)"\0\1t"; topic.name_size=3; topic.parts=calloc(PARTS,sizeof(void*)); topic.part_count=PARTS;
  for(int i=0;i<PARTS;i++){kp_part_init(&parts[i],&plane,&topic,i,NULL); topic.parts[i]=&parts[i]; parts[i].is_numbered=plane.is_transactional; parts[i].acknowledged_ms=-1; kp_part_arm(&parts[i],&lane);}
  pthread_t t[CALLERS],bt; pthread_create(&bt,NULL,broker,NULL); for(size_t i=0;i<CALLERS;i++) pthread_create(&t[i],NULL,caller,(void*)(i+1));
  static unsigned char buf[65536]; int idle=0;
  for(;;){ int64_t now=now_ms(); kp_lane_drain(&lane,now); kp_lane_write(&lane);
    kp_plane_set_sleep(&plane,now+1); (void)kp_lane_next_ms(&lane); kp_plane_set_sleep(&plane,INT64_MIN);
    ssize_t n=recv(sv[0],buf,sizeof buf,MSG_DONTWAIT); unsigned char*at=buf;
    while(n>0){ int64_t used; const unsigned char*f; int64_t fs; kp_frame k=kp_lane_receive(&lane,at,n,&used,&f,&fs); at+=used;n-=used; if(k==KP_FRAME_UNUSUAL){printf("UNUSUAL\n");return 3;} }
    for(KpRequest*r=kp_lane_take_done(&lane),*nx;r;r=nx){nx=r->next;count_of(r);kp_request_free(r);}
    /* re-arm: what was handed back counts as delivered by Python, if nothing is in flight before it */
    for(int p=0;p<PARTS;p++){ kp_part_lock(&parts[p]); bool busy=false; for(KpBatch*b=python[p];b;b=b->next) busy|=atomic_load(&((Batch*)b)->busy); if(!parts[p].lane && !parts[p].flying_first && !busy){ for(KpBatch*b=python[p],*nx;b;b=nx){nx=b->next; Batch*x=(Batch*)b; if(x->first<next_ack[p]){printf("ORDER\n");return 2;} next_ack[p]=x->first+b->record_count; kp_batch_forget_compressed(b); free(b->data); free(x);} python[p]=python_last[p]=NULL; parts[p].lane=&lane;} kp_part_unlock(&parts[p]); }
    if(plane.is_transactional && ++rounds%200==0 && !ending){ pthread_rwlock_wrlock(&gate); ending=true; }
    if(ending){ bool left=lane.in_flight>0; for(int p=0;p<PARTS;p++) left|=kp_part_waiting_count(&parts[p])>0||python[p]!=NULL;
      if(!left){ transactions++; kp_plane_number(&plane,7,(int16_t)(plane.generation+1)); ending=false; pthread_rwlock_unlock(&gate); } }
    int64_t total=0; for(int p=0;p<PARTS;p++) total+=next_ack[p];
    if(atomic_load(&done_callers)==CALLERS && total==(int64_t)CALLERS*RECORDS) break;
    if(atomic_load(&done_callers)==CALLERS && ++idle>2000000){printf("STRANDED %ld\n",(long)total);return 4;}
  }
  if(plane.is_transactional&&!transactions){printf("no transaction has ended\n");return 6;}
  if(plane.codec&&(codec_calls<100||!by_callers||atomic_load(&plane.plain_count))){printf("nothing was compressed\n");return 8;}
  printf("ok begun %d settled %d handed back %d transactions %d\n",begun,settled,detached,transactions); return 0; }
