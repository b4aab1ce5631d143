# Calls the server with Triton's own clients. Arguments: the addresses of REST and gRPC.
# Prints a line "ok WHAT" or "FAIL WHAT" for every check.
import queue
import sys

import numpy as np
import tritonclient.http as H, tritonclient.grpc as G
from tritonclient.utils import InferenceServerException

def ok(x, what):
    print("ok" if x else "FAIL", what)

a=np.arange(16,dtype=np.int32).reshape(1,16); b=np.ones((1,16),np.int32)
for M,url in ((H, sys.argv[1]), (G, sys.argv[2])):
    c=M.InferenceServerClient(url)
    ok(c.is_server_live() and c.is_server_ready() and c.is_model_ready('simple'),M.__name__+' health')
    def ins(binary=True):
        l=[M.InferInput('INPUT0',[1,16],'INT32'),M.InferInput('INPUT1',[1,16],'INT32')]
        for i,x in zip(l,(a,b)):
            i.set_data_from_numpy(x,**({'binary_data':binary} if M is H else {}))
        return l
    for binary in ((True,False) if M is H else (True,)):
        r=c.infer('simple',ins(binary),outputs=[M.InferRequestedOutput('OUTPUT0'),M.InferRequestedOutput('OUTPUT1')],request_id='5')
        ok((r.as_numpy('OUTPUT0')==a+b).all() and (r.as_numpy('OUTPUT1')==a-b).all(),'infer')
    r=c.infer('simple',ins()); ok((r.as_numpy('OUTPUT0')==a+b).all(),'infer default outputs')
    if M is H:
        for z in ('gzip','deflate'):
            r=c.infer('simple',ins(),request_compression_algorithm=z,response_compression_algorithm=z); ok((r.as_numpy('OUTPUT0')==a+b).all(),z)
        f=c.async_infer('simple',ins()); ok((f.get_result().as_numpy('OUTPUT0')==a+b).all(),'async')
    else:
        q=queue.Queue()
        c.async_infer('simple',ins(),callback=lambda result,error:q.put((result,error)))
        r,e=q.get(timeout=5); ok(e is None and (r.as_numpy('OUTPUT0')==a+b).all(),'async')
        c.start_stream(callback=lambda result,error:q.put((result,error)))
        for i in range(10): c.async_stream_infer('simple',ins(),request_id=str(i),enable_empty_final_response=True)
        got=[q.get(timeout=5) for _ in range(10)]
        ok([g[0].get_response().id for g in got]==[str(i) for i in range(10)],'stream')
        c.stop_stream()
        r=c.infer('simple',ins(),compression_algorithm='gzip',client_timeout=5); ok((r.as_numpy('OUTPUT0')==a+b).all(),'gzip')
    r=c.infer('simple',ins(),outputs=[M.InferRequestedOutput('OUTPUT0',class_count=3)]); ok(r.as_numpy('OUTPUT0')[0][0] == b'16:15', 'classification')
    s=np.array([[str(i).encode() for i in range(16)]],dtype=np.object_)
    i=M.InferInput('x',[1,16],'BYTES'); i.set_data_from_numpy(s)
    r=c.infer('simple_identity',[i]); ok((r.as_numpy('y')==s).all(),'bytes')
    ok(c.get_server_metadata() is not None,'server metadata'); 
    m=c.get_model_metadata('simple'); k=c.get_model_config('simple'); st=c.get_inference_statistics('simple')
    ok((m['name'] if M is H else m.name)=='simple','metadata'); ok((k['max_batch_size'] if M is H else k.config.max_batch_size)==8,'config'); ok(st is not None,'stats')
    c.unload_model('simple'); ok(not c.is_model_ready('simple'),'unload')
    c.load_model('simple',config='{"max_batch_size":4}'); ok(c.is_model_ready('simple'),'load with config'); c.load_model('simple')
    ok(len(c.get_model_repository_index() if M is H else c.get_model_repository_index().models)==2,'index')
    for f in (lambda: c.infer('none',ins()), lambda: c.infer('simple',ins()[:1]), lambda: c.get_system_shared_memory_status()):
        try: f(); ok(False,'error expected')
        except InferenceServerException as e: ok(True,'error: '+str(e))
    c.update_trace_settings(settings={'trace_rate':'7'}); r=c.get_trace_settings('simple')
    ok((r['trace_rate'] if M is H else r.settings['trace_rate'].value[0])=='7','trace settings'); c.update_trace_settings(settings={'trace_rate':None})
    c.update_log_settings({'log_verbose_level':1}); r=c.get_log_settings()
    ok((r['log_verbose_level'] if M is H else r.settings['log_verbose_level'].uint32_param)==1,'log settings'); c.update_log_settings({'log_verbose_level':0})
    try:
        r=c.infer('simple',ins(),priority=1,timeout=1000000); ok(True,'priority')
    except Exception as e: ok(False,'priority '+str(e))
